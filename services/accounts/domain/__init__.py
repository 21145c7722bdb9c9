"""What accounts, names, addresses, codes and sessions are: pure, with chance and time handed in."""
