"""What proves the claims of one board object, and who is told that they end."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.board.claim_errors import error_of_end, loss_of
from jobboard.board.handles import JobHandles
from jobboard.client import BackendClient
from jobboard.errors import ClaimLost
from jobboard.job import JobHandle, JobOrUuid
from jobboard.states import JobState
from jobboard.validation import check_count, check_text

_MAX_TOKEN = 2**63 - 1


class Fences:
    """Makes the fence of a claim, and follows it to its end."""

    def __init__(self, client: BackendClient, handles: JobHandles) -> None:
        self._client, self._handles = client, handles

    def of(self, job: JobOrUuid, who: str, token: int | None) -> Fence:
        """Return :meth:`held` of what users gave."""
        check_text("who", who)
        if token is not None:
            check_count("token", token, most=_MAX_TOKEN)
        return self.held(job, who, token)

    def held(self, job: JobOrUuid, who: str, token: int | None) -> Fence:
        """Return the fence of a claim.

        Its token is that of the handle, else the one that this board got for the owner, else ``token``.

        :raises ClaimLost: there is none of them.
        """
        uuid = self._handles.uuid_of(job)
        held = job.token if isinstance(job, JobHandle) else None
        if held is None:
            held = self._client.tokens.recall(uuid, who)
        if held is None:
            held = token
        if held is None:
            raise ClaimLost(f"{who!r} holds no claim of job {uuid} that this board knows of; claim it first")
        return Fence(uuid, who, held)

    def ending(self, who: str, fences: Sequence[Fence]) -> None:
        """Tell the keepers of an owner that it is about to end these claims."""
        for keeper in self._client.keepers.of(who):
            for fence in fences:
                keeper.ending(fence.uuid, fence.token)

    def forget(self, who: str, fences: Sequence[Fence]) -> None:
        """Forget claims that have ended, and tell the keepers."""
        self._client.tokens.forget(fences)
        for keeper in self._client.keepers.of(who):
            for fence in fences:
                keeper.ended(fence.uuid, fence.token)

    def ended(self, fence: Fence, answer: ClaimAnswer, repeated: bool, ended: JobState | None = None) -> None:
        """Forget a claim whose end the store has answered; raises what the answer means, if it is not an end."""
        self.forget(fence.who, [fence])
        error = error_of_end(fence, answer, repeated, ended)
        if error is not None:
            raise error

    def raise_if_lost(self, fence: Fence, answer: ClaimAnswer) -> None:
        """Raise :class:`~jobboard.ClaimLost`, and forget the claim, if the store says that it does not hold."""
        error = loss_of(fence, answer)
        if error is not None:
            self._client.tokens.forget([fence])
            raise error
