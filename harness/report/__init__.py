"""Tables: the trials of a store as mean and spread, alone or beside the numbers that the papers printed."""
