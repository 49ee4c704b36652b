from tests.support.databases import place as place
from tests.support.databases import sqlite_place as sqlite_place
from tests.support.databases import url as url
