"""What some experiments compute of their own once their networks are trained."""
