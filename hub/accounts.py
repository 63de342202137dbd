"""Accounts with a password each, of which those of the admins exist before students can sign up.

NativeAuthenticator makes an admin of whoever signs up first under an admin's name. Here signing up under such a
name fails: the hub makes these accounts itself when it starts, before it listens.
"""

import os
import secrets
import sys

from nativeauthenticator import NativeAuthenticator

SHORTEST = 12
"""The least length of an admin's password that is given."""


class ClassAccounts(NativeAuthenticator):
    """NativeAuthenticator for a class: students sign up, admins let them in, and no admin is made by signing up."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in sorted(map(self.normalize_username, self.admin_users)):
            if not self.user_exists(name):
                self._make_admin(name)

    def create_user(self, username, password, **kwargs):
        """Make the account of somebody who signs up; None under the name of an admin."""
        if self.normalize_username(username) in set(map(self.normalize_username, self.admin_users)):
            self.log.warning("somebody tried to sign up under the name of an admin")
            return None
        return super().create_user(username, password, **kwargs)

    def _make_admin(self, name):
        """Make the account of an admin: with the password of HUB_ADMIN_PASSWORD, or with one that is printed once.

        Raises:
            ValueError: the password is too short, or the name is none that an account can have.
        """
        given = os.environ.get("HUB_ADMIN_PASSWORD", "")
        if given and len(given) < SHORTEST:
            raise ValueError(f"HUB_ADMIN_PASSWORD is to have at least {SHORTEST} characters")
        password = given or secrets.token_urlsafe(18)
        if super().create_user(name, password) is None:
            raise ValueError(f"the admin {name!r} cannot have an account: HUB_ADMINS is to hold names as students have")
        if not given:
            text = f"The admin {name} logs in with the password {password}\nIt is shown only now. Change it there."
            print(text, file=sys.stderr, flush=True)
