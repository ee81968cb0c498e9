"""What people see of a sweep."""
