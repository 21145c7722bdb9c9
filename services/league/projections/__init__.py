"""The projection: what facts add to a build of it, and builds made anew beside the live one."""
