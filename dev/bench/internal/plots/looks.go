package plots

import (
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// theme are the colours of a picture: each is drawn for readers of light and of dark pages.
type theme struct {
	name                     string
	ground, ink, faint, grid string
	colours                  map[string]string // of the sides
	other                    string            // of those that are not in colours
}

// A side has one colour in every picture. People who do not see red and green can tell them apart (Okabe and Ito, and Tol).
var themes = []theme{
	{"light", "#ffffff", "#1f2328", "#59636e", "#e3e6ea", map[string]string{
		side.Version: "#0072b2", side.Unique: "#d55e00", side.ForUpdate: "#009e73", side.Mongo: "#882255", side.Poller: "#b8860b", side.Floor: "#1f2328"}, "#8a929b"},
	{"dark", "#0d1117", "#e6edf3", "#9198a1", "#2a313a", map[string]string{
		side.Version: "#58b4f0", side.Unique: "#ff9142", side.ForUpdate: "#35d0a0", side.Mongo: "#f08cc0", side.Poller: "#e0b040", side.Floor: "#e6edf3"}, "#9198a1"},
}

func (t theme) colour(of string) string {
	of, _, _ = strings.Cut(of, ", ") // "version, one by one"
	if c, ok := t.colours[of]; ok {
		return c
	}
	return t.other
}

// dashes are those of a side's line: what is no lock of the library is dashed.
func dashes(of string) string {
	if isOurs(of) {
		return ""
	}
	return "5 4"
}

// sides are the names of the sides as the library's users know them.
var sides = map[string]string{
	side.Version: "VersionColumn", side.Unique: "UniqueInsert", side.ForUpdate: "SelectForUpdate", side.Mongo: "rowlock",
	side.Floor: "two commits by hand", side.Poller: "try every 5 ms", side.GetLock: "GET_LOCK",
	side.Redislock: "redislock", side.Redsync: "redsync", side.Etcd: "etcd", side.ZooKeeper: "ZooKeeper",
}

func named(of string) string {
	if name, ok := sides[of]; ok {
		return name
	}
	return of
}

var servers = map[string]string{
	lab.MySQL: "MySQL", lab.MariaDB: "MariaDB", lab.Mongo: "MongoDB, one node", lab.Mongo3: "MongoDB, three nodes",
	"redis always": "Redis, syncs each write", "redis everysec": "Redis, syncs each second", "etcd": "etcd", "zookeeper": "ZooKeeper",
}
