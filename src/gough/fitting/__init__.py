"""Estimators know no robots: problem, estimate, uncertainty, and a folder for each idea."""
