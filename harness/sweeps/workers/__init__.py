"""What runs on a worker beside its trial, and what a trial may use there."""
