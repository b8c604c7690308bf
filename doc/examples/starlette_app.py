"""A board in an application of Starlette; this one has no table of its own."""

from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from jobboard import BoardUnavailable, NotFound, aio


@asynccontextmanager
async def lifespan(app):
    async with aio.open("orders", "memory://starlette", patience=2) as app.state.board:
        yield


async def place_order(request):
    job = await request.app.state.board.post("invoice", {"order": 4711})
    return JSONResponse({"id": job.uuid}, status_code=202)


async def show_order(request):
    try:
        job = await request.app.state.board.get(request.path_params["id"])
    except (NotFound, ValueError):  # nobody knows it, or its record is gone
        return JSONResponse({"state": "unknown"}, status_code=404)
    return JSONResponse({"state": job.record.state.lower(), "result": job.record.result})


async def unavailable(request, error):
    return JSONResponse({"state": "try again in a moment"}, status_code=503, headers={"Retry-After": "5"})


app = Starlette(
    lifespan=lifespan,
    routes=[Route("/orders", place_order, methods=["POST"]), Route("/orders/{id}", show_order)],
    exception_handlers={BoardUnavailable: unavailable},
)
