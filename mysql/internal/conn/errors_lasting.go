package conn

import (
	"errors"
	"regexp"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// The second of two questions about an error: does it last? What the manuals describe as a state of the schema, of the
// rights or of the configuration does, until somebody mends it. Everything else may pass, also a number that nobody
// knows, which may come from a proxy: it is tried again while the caller waits. SQLSTATE does not tell: 42000 is that
// of a missing privilege (1142) and of too many connections (1203).

// SchemaErrors say that a table, a column or an index is missing.
var SchemaErrors = map[uint16]bool{ErNoTable: true, ErNoColumn: true, ErNoIndex: true}

// cause is why errors last, with what to do.
type cause struct {
	numbers []uint16
	schema  bool // the tables do not fit
	advice  string
}

var causes = []cause{
	{[]uint16{ErNoTable}, true, "a lock table is missing: run Migrate"},
	{[]uint16{ErNoColumn}, true, "a lock table lacks a column, it was made by an older version: run Migrate"},
	{[]uint16{ErNoIndex}, true, "a lock table lacks an index, it was made by an older version: run Migrate"},
	{[]uint16{1364, 1423, 4029}, true, "a lock table has a column that is not rowlock's, without a default: give it one (ALTER TABLE … ALTER COLUMN … SET DEFAULT …), or drop it"},
	{[]uint16{1136, 1906, 3105, 1048, 3673, 1263, 1348}, true, "the columns of a lock table do not take what rowlock writes: a NOT NULL, a generated column or a trigger is not rowlock's"},
	{[]uint16{1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1441, 1525, 1690, 1916, 1917, 1918, 1977, 3854}, true,
		"a value does not fit into its column: a column of a lock table was changed, or its row by hand: compare SHOW CREATE TABLE with the files of package migrations"},
	{[]uint16{1253, 1267, 1270, 1271, 1273, 1115, 3987, 3988, 3995, 4078, 4079}, true,
		"the character set or the collation of a column does not fit: compare SHOW CREATE TABLE with the files of package migrations"},
	{[]uint16{3819, 4025, 4027, 4028}, true, "a CHECK constraint that is not rowlock's refuses the row: drop it"},
	{[]uint16{1216, 1217, 1451, 1452, 3008}, true, "a foreign key that is not rowlock's refuses the row: drop it"},
	{[]uint16{erDuplicateKey, 1169, 1586, 1859, 3026, 4134}, true, "a unique index that is not rowlock's refuses the row: drop it"},
	{[]uint16{1305, 1318, 1336, 1339, 1360, 1362, 1363, 1415, 1422, 1424, 1435, 1442, 1445, 1456, 1602, 1603, 1604, 1606, 1643, 1644, 1645, 1710, 1711, 3011}, true,
		"a trigger on a lock table, which is not rowlock's, refuses the row or fails: drop it"},
	{[]uint16{1288, 1347, 1356, 1369, 1393, 1394, 1395, 1443, 1471, 1965}, true, "a lock table is a view, which cannot be written: drop it and run Migrate"},
	{[]uint16{1467, 1526, 1591, 1748, 1863, 1869, 4114, 4084}, true, "a partition or an AUTO_INCREMENT column that is not rowlock's has no place for the row: drop it"},
	{[]uint16{1017, 1033, 1034, 1035, 1194, 1195, 1459, 1707, 1712, 1808, 1812, 1813, 1814, 1817, 1877, 1932, 3000, 3510, 3629}, true, "the files of a lock table are damaged or missing: repair it, or drop it and run Migrate"},
	{[]uint16{1031, 1112, 1286, 1726, 3003, 3161, 4182}, true, "the storage engine of a lock table cannot do it: ALTER TABLE … ENGINE=InnoDB"},

	{[]uint16{ErDatabaseDenied}, false, "the user may not use this database: grant it SELECT, INSERT, UPDATE and DELETE on the lock tables"},
	{[]uint16{ErTableDenied}, false, "the user may not use this table: grant SELECT, INSERT, UPDATE and DELETE on the lock tables"},
	{[]uint16{1143}, false, "the user may not use this column: grant SELECT, INSERT, UPDATE and DELETE on the lock tables"},
	{[]uint16{erSpecificAccess, 6038, 1370, 3879}, false, "the user lacks a privilege"},
	{[]uint16{1449, 1454, 1960, 3162}, false, "the user in whose name a trigger or a view runs (its DEFINER) does not exist: create it, or drop that"},
	{[]uint16{1045}, false, "the server refused the user or password: correct the DSN"},
	{[]uint16{1698, 1873}, false, "the server refused the user: correct the DSN"},
	{[]uint16{1130}, false, "the server lets no user in from this host: create the user for it"},
	{[]uint16{1251, 1524, 1275}, false, "the server and the driver share no way to log in"},
	{[]uint16{1820, 1862}, false, "the user's password has expired"},
	{[]uint16{3118, 3955, 4150, 4151}, false, "the user is locked"},
	{[]uint16{3159}, false, "the server wants TLS: set tls in the DSN"},
	{[]uint16{ErNoDatabase, 3503}, false, "the database does not exist: correct the DSN or create it"},
	{[]uint16{1046}, false, "the DSN names no database"},

	{[]uint16{1064, 1149, 1128, 1210, 1235, 1582, 1583, 1630, 3658, 1970}, false,
		"the server does not understand the statement: it is no MySQL 8.0 or MariaDB 10.6, or something in between rewrites statements"},
	{[]uint16{1148, 1289, 3110, 3130, 3167}, false, "the server, or a proxy or firewall before it, does not allow the statement"},
	{[]uint16{ErNoVariable, 3615}, false, "the server lacks a variable: it is no MySQL 8.0 or MariaDB 10.6"},
	{[]uint16{1229, 1230, 1231, 1232, 1238, 1621, 3899, 3976, 4156}, false, "the server does not let a variable be set: is it set in the DSN or by init_connect?"},
	{[]uint16{1104}, false, "max_join_size of the server refuses the statement: raise it, or set sql_big_selects"},
	{[]uint16{1175}, false, "sql_safe_updates of the server refuses the statement"},
	{[]uint16{1661, 1662, 1663, 1664, 1665, 1666, 1667, 4056, 4088}, false, "the binary log of the server cannot log it: set binlog_format to ROW"},
	{[]uint16{1785, 1786, 1837, 1840, 3748, 4090}, false, "gtid_mode or gtid_next of the server refuses the statement"},
	{[]uint16{3098, 3750, 4155}, false, "group replication, or sql_require_primary_key, takes no table that is made like this: was the primary key dropped, or the engine changed?"},
	{[]uint16{3989}, false, "the database is read-only: ALTER SCHEMA … READ ONLY=0"},
	{[]uint16{1558, 1805, 3009}, false, "the server's own tables are those of another version: run mysql_upgrade"},
}

// lasting has the causes by their numbers; of two the first.
var lasting = func() map[uint16]*cause {
	m := make(map[uint16]*cause)
	for i, c := range causes {
		for _, n := range c.numbers {
			if m[n] == nil {
				m[n] = &causes[i]
			}
		}
	}
	return m
}()

// ownIndexes are those of the lock tables.
var ownIndexes = []string{"PRIMARY", "guard"}

// duplicateOf takes the index out of the text of a duplicate; MySQL puts the table before it.
var duplicateOf = regexp.MustCompile(`for key '(?:[^']*\.)?([^'.]+)'$`)

// lastingCause is why err comes again whenever one tries; nil: it may pass.
func lastingCause(err error) *cause {
	n := Number(err)
	if n == erDuplicateKey || n == 1586 { // in an index of ours it is another's row of now
		var e *mysql.MySQLError
		if errors.As(err, &e) {
			if m := duplicateOf.FindStringSubmatch(e.Message); m == nil || slices.Contains(ownIndexes, m[1]) {
				return nil
			}
		}
	}
	return lasting[n]
}

// DoesNotFit reports whether the server refused a statement because of how a table was made.
func DoesNotFit(err error) bool {
	c := lastingCause(err)
	return c != nil && c.schema
}
