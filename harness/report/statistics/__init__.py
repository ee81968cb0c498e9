"""What the spread over seeds says: significance, bootstraps, predictions."""
