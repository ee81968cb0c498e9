"""Tables of mean and spread over trials, alone or beside the numbers of the papers."""
