from tests.support.databases import place as place
from tests.support.databases import url as url
