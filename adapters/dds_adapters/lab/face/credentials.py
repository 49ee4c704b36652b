"""Who may ask: users and their bearer tokens, made anew at each start. Tokens are secret and shown nowhere but in a
kubeconfig."""

import secrets
from collections.abc import Mapping

from dds_adapters.lab.api.access import Access
from dds_adapters.lab.api.requests import MASTERS, User

ADMIN = User("admin", (MASTERS,))


class Credentials:
    """A token for each user, by the name of the context that will use it."""

    def __init__(self, users: Mapping[str, User] | None = None) -> None:
        """`users` by context; without, there is `admin` alone, who may everything."""
        self.users = dict(users) if users is not None else {"admin": ADMIN}
        self.tokens = {context: secrets.token_urlsafe(24) for context in self.users}

    def register(self, access: Access) -> None:
        """Let the server know them."""
        for context, user in self.users.items():
            access.register(self.tokens[context], user)
