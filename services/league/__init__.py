"""The league service: what players have played and reached, projected from the facts of games."""
