"""What everything else is built on: settings, files, errors, the machine. Imports no other room."""
