"""The course and micro: where its loss comes from, how much text it needs, how it was trained."""
