"""Measurements, tables and findings that single experiments need once their networks are trained."""
