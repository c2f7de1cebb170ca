package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

var errGone = errors.New("connection refused")

// member is the view of a member of a group of three that names that primary, and sees so many of them.
func member(id, primary string, online ...string) Seen {
	v := View{Server: id, ID: id, Kind: Group}
	for _, m := range online {
		role := "SECONDARY"
		if m == primary {
			role = "PRIMARY"
		}
		v.Members = append(v.Members, Member{m, "ONLINE", role})
	}
	if id != primary {
		v.ReadOnly = "super_read_only"
	}
	v.place()
	return Seen{Addr: id, View: v}
}

func server(id, readOnly string) Seen {
	return Seen{Addr: id, View: View{Server: id, ID: id, ReadOnly: readOnly}}
}

func semi(id string, replicas int) Seen {
	s := server(id, "")
	s.View.Kind, s.View.Replicas = SemiSync, replicas
	return s
}

func galera(id, notReady string) Seen {
	s := server(id, "")
	s.View.Kind, s.View.NotReady = Galera, notReady
	return s
}

func hung(s Seen) Seen { s.Hung = true; return s }

// TestChoose: which server takes writes, by what all say.
func TestChoose(t *testing.T) {
	dead := Seen{Addr: "a", Err: errGone}
	hidden := server("b", "")
	hidden.View.Kind, hidden.View.NoAccess = Group, errors.New("grant SELECT")
	for _, c := range []struct {
		name string
		seen []Seen
		want int
		text string // of the error
	}{
		{"the only one that is writable", []Seen{server("a", "read_only"), server("b", ""), dead}, 1, ""},
		{"none", []Seen{server("x", "read_only"), dead}, -1, "x: read_only is on; a: connection refused"},
		{"one server by two addresses", []Seen{{Addr: "a", View: View{Server: "s"}}, {Addr: "b", View: View{Server: "s"}}}, 0, ""},
		{"two that nothing tells apart", []Seen{server("a", ""), server("b", "")}, -1, "a and b all take writes"},
		{"one of them had hung", []Seen{hung(server("a", "")), server("b", "")}, 1, ""},
		{"one that had hung and is alone", []Seen{hung(server("a", "")), server("b", "read_only")}, 0, ""},

		{"a group", []Seen{member("a", "b", "a", "b", "c"), member("b", "b", "a", "b", "c"), member("c", "b", "a", "b", "c")}, 1, ""},
		{"a primary that was frozen and has not noticed", []Seen{member("a", "a", "a", "b", "c"), member("b", "b", "b", "c"), member("c", "b", "b", "c")}, 1, ""},
		{"the same, and the third is away", []Seen{member("a", "a", "a", "b", "c"), member("b", "b", "b", "c"), dead}, -1, "a and b"},
		{"the same, and it is known to have hung", []Seen{hung(member("a", "a", "a", "b", "c")), member("b", "b", "b", "c"), dead}, 1, ""},
		{"a member that sees no majority", []Seen{func() Seen {
			s := member("a", "a", "a", "b", "c")
			s.View.Members[1].State, s.View.Members[2].State = "UNREACHABLE", "UNREACHABLE"
			s.View.NotReady = ""
			s.View.place()
			return s
		}(), dead, dead}, -1, "1 of 3 members"},
		{"a group that may not be seen", []Seen{server("a", ""), hidden}, -1, "grant SELECT"},

		{"semi-synchronous: replicas follow the second", []Seen{semi("a", 0), semi("b", 2)}, 1, ""},
		{"semi-synchronous: nobody follows any", []Seen{semi("a", 0), semi("b", 0)}, -1, "a and b"},

		{"Galera: the first", []Seen{galera("a", ""), galera("b", ""), galera("c", "")}, 0, ""},
		{"Galera: the first that can", []Seen{dead, galera("b", "non-Primary"), galera("c", "")}, 2, ""},
		{"Galera: the first, though it had hung", []Seen{hung(galera("a", "")), galera("b", ""), galera("c", "")}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Choose(c.seen)
			if got != c.want || (err == nil) != (c.want >= 0) {
				t.Fatalf("chose %d: %v; want %d", got, err, c.want)
			}
			if err != nil && (!errors.Is(err, ErrNoPrimary) || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("%v: does not say %q", err, c.text)
			}
		})
	}
}

// TestChooseTellsCauses: what the servers answered can be told from the error, a refused password above all.
func TestChooseTellsCauses(t *testing.T) {
	if _, err := Choose([]Seen{{Addr: "a", Err: errGone}}); !errors.Is(err, errGone) {
		t.Errorf("%v: the cause is lost", err)
	}
	denied := &mysql.MySQLError{Number: 1045, Message: "Access denied"}
	if _, err := Choose([]Seen{{Addr: "a", Err: denied}, {Addr: "b", Err: denied}}); !lasting(err) {
		t.Errorf("%v: a password that all refuse is passing", err)
	}
	if _, err := Choose([]Seen{{Addr: "a", Err: denied}, server("b", "read_only")}); lasting(err) || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("%v: a password that one refuses is lasting, or not told", err)
	}
}
