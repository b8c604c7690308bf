import pytest
import shop


@pytest.fixture
def jobboard_handlers():
    return shop.handlers
