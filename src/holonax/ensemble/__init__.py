"""Many runs of one mechanism at once."""
