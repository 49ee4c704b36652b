"""NEC's CDIM: its configuration API, over http and without a login."""
