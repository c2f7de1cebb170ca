package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestGrants: a user with what grants prints can do all that the commands do, but make tables. Its password
// has in it what a URL would have to encode.
func TestGrants(t *testing.T) {
	const password = `p@ss w/o:rd%2f?`
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for _, strategy := range []string{"version", "unique", "for-update"} {
			t.Run(kind+"/"+strategy, func(t *testing.T) {
				t.Parallel()
				address := database(t, kind)
				must(t, open(t, address).Migrate(t.Context()))
				admin, err := sql.Open("mysql", testserver.DSN(t, kind))
				must(t, err)
				defer admin.Close()
				name := "cli_" + strings.ToLower(rand.Text()[:10])
				user := "'" + name + "'@'%'"
				_, err = admin.Exec("CREATE USER " + user + " IDENTIFIED BY '" + password + "'")
				must(t, err)
				t.Cleanup(func() {
					admin, err := sql.Open("mysql", testserver.DSN(t, kind))
					must(t, err)
					_, _ = admin.Exec("DROP USER " + user)
					_ = admin.Close()
				})
				rowlock := func(env []string, args ...string) (string, int) {
					cmd := exec.Command(filepath.Join(bin, "rowlock"), append([]string{"--strategy", strategy}, args...)...)
					cmd.Env = append(cmd.Environ(), env...)
					out, _ := cmd.CombinedOutput()
					return string(out), cmd.ProcessState.ExitCode()
				}
				statements, code := rowlock([]string{"ROWLOCK_DB=" + address}, "grants", "--user", user)
				if code != 0 {
					t.Fatal(statements)
				}
				as := []string{"ROWLOCK_DB=" + strings.Replace(address, "root:secret@", name+"@", 1), "ROWLOCK_PASSWORD=" + password}
				if out, code := rowlock(as, "run", "k", "--", "true"); code != 78 || !strings.Contains(out, "what a user needs is printed by: rowlock grants --user ") {
					t.Errorf("without privileges: exit code %d\n%s", code, out)
				}
				pipe(t, kind, statements)
				pipe(t, kind, statements) // the user, which was there before, keeps its password
				for _, line := range []string{
					"migrate --check", "run k -- true", "run --run a k -- true", "run --period 1h k -- true", "run --min-hold 1h kept -- true",
					"ls", "show k", "wait k", "runs k", "reap --yes --runs 1h",
				} {
					if out, code := rowlock(as, strings.Fields(line)...); code != 0 {
						t.Errorf("%s: exit code %d\n%s", line, code, out)
					}
				}
				info := inspectAs(t, address, strategy, "kept")
				if out, code := rowlock(as, "free", "kept", "--yes", "--token", info); code != 0 {
					t.Errorf("free: exit code %d\n%s", code, out)
				}
				if out, code := rowlock(as, "migrate", "--up"); code != 78 || strings.Contains(out, password) || strings.Contains(out, "rowlock grants") || !strings.Contains(out, "as a user who may create tables") {
					t.Errorf("migrate --up as this user: exit code %d\n%s", code, out)
				}
			})
		}
	}
}

// pipe gives all that was printed to a server as it is, on one connection that takes several statements at once.
func pipe(t *testing.T, kind, statements string) {
	t.Helper()
	dsn := testserver.DSN(t, kind)
	mark := "?"
	if strings.Contains(dsn, "?") {
		mark = "&"
	}
	admin, err := sql.Open("mysql", dsn+mark+"multiStatements=true")
	must(t, err)
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("%v\n%s", err, statements)
	}
}

// TestGrantsMakesTheUser: what is printed makes a user that is not there, with the password that is in it.
func TestGrantsMakesTheUser(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := database(t, kind)
			must(t, open(t, address).Migrate(t.Context()))
			name := "new_" + strings.ToLower(rand.Text()[:10])
			user := "'" + name + "'@'%'"
			cmd := exec.Command(filepath.Join(bin, "rowlock"), "grants", "--user", user)
			cmd.Env = append(cmd.Environ(), "ROWLOCK_DB="+address)
			out, err := cmd.Output()
			must(t, err)
			t.Cleanup(func() {
				admin, err := sql.Open("mysql", testserver.DSN(t, kind))
				must(t, err)
				_, _ = admin.Exec("DROP USER IF EXISTS " + user)
				_ = admin.Close()
			})
			pipe(t, kind, string(out))
			m := regexp.MustCompile(`(?m)^CREATE USER IF NOT EXISTS (.+) IDENTIFIED BY '(.+)';$`).FindSubmatch(out)
			if m == nil || string(m[1]) != user {
				t.Fatalf("no user is made:\n%s", out)
			}
			cmd = exec.Command(filepath.Join(bin, "rowlock"), "run", "k", "--", "true")
			cmd.Env = append(cmd.Environ(), "ROWLOCK_DB="+strings.Replace(address, "root:secret@", name+"@", 1), "ROWLOCK_PASSWORD="+string(m[2]))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("as the new user: %v\n%s", err, out)
			}
		})
	}
}

// inspectAs is the token of a key of another strategy than open has.
func inspectAs(t *testing.T, address, strategy, key string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "rowlock"), "--strategy", strategy, "show", "--quick", key)
	cmd.Env = append(cmd.Environ(), "ROWLOCK_DB="+address)
	out, err := cmd.Output()
	must(t, err)
	_, after, ok := strings.Cut(string(out), "\ntoken")
	if !ok {
		t.Fatalf("no token:\n%s", out)
	}
	return strings.Fields(after)[0]
}

// TestGrantsMongo: so can a user of MongoDB, on a server that asks who it is.
func TestGrantsMongo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	keys := filepath.Join(folder, "keys")
	must(t, os.WriteFile(keys, []byte("cm93bG9ja3Jvd2xvY2tyb3dsb2Nr"), 0o600))
	server := testserver.Start(t, testserver.Mongo, "--auth", "--keyFile", keys)
	first, err := mongo.Connect(options.Client().ApplyURI(server.DSN()))
	must(t, err)
	defer first.Disconnect(context.Background())
	run := func(c *mongo.Client, db string, cmd any) {
		t.Helper()
		must(t, c.Database(db).RunCommand(t.Context(), cmd).Err())
	}
	newUser := func(name string, roles ...any) bson.D {
		return bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: append(bson.A{}, roles...)}}
	}
	run(first, "admin", newUser("root", "root"))
	root, err := mongo.Connect(options.Client().ApplyURI(server.DSN()).SetAuth(options.Credential{Username: "root", Password: "pw", AuthSource: "admin"}))
	must(t, err)
	defer root.Disconnect(context.Background())
	run(root, "shop", newUser("jobs"))
	run(root, "admin", newUser("ann"))

	hosts, query, _ := strings.Cut(strings.TrimPrefix(server.DSN(), "mongodb://"), "/?")
	rowlock := func(user, more string, args ...string) (string, int) {
		cmd := exec.Command(filepath.Join(bin, "rowlock"), args...)
		cmd.Env = append(cmd.Environ(), "ROWLOCK_DB=mongodb://"+user+"@"+hosts+"/shop?"+query+more, "ROWLOCK_PASSWORD=pw")
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := rowlock("root", "&authSource=admin", "migrate", "--up"); code != 0 || !strings.HasPrefix(out, "the collections are there: ") {
		t.Fatalf("migrate: exit code %d\n%s", code, out)
	}
	statement := regexp.MustCompile(`(?m)^db\.getSiblingDB\("(\w+)"\)\.runCommand\((\{(?s:.*?)\})\)$`)
	for _, as := range []struct{ user, more, in string }{{"jobs", "", "shop"}, {"ann", "&authSource=admin", "admin"}} {
		if out, code := rowlock(as.user, as.more, "run", "k", "--", "true"); code != 78 {
			t.Errorf("%s without privileges: exit code %d\n%s", as.user, code, out)
		}
		out, code := rowlock("root", as.more, "grants", "--user", as.user)
		if code != 0 || !strings.Contains(out, `db.getSiblingDB("`+as.in+`").createUser({"user": "`+as.user+`", `) {
			t.Errorf("grants: exit code %d\n%s", code, out)
		}
		found := statement.FindAllStringSubmatch(out, -1)
		if len(found) != 2 {
			t.Fatalf("%d statements:\n%s", len(found), out)
		}
		if as.user == "jobs" { // the first one; by then the role is there
			m := regexp.MustCompile(`(?m)^if \(!db\.getSiblingDB\("shop"\)\.getRole\("rowlock"\)\) db\.getSiblingDB\("shop"\)\.runCommand\((.*)\)$`).FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("no role is made:\n%s", out)
			}
			var cmd bson.D
			must(t, bson.UnmarshalExtJSON([]byte(m[1]), false, &cmd))
			run(root, "shop", cmd)
		}
		for _, m := range found {
			var cmd bson.D
			must(t, bson.UnmarshalExtJSON([]byte(m[2]), false, &cmd))
			run(root, m[1], cmd)
		}
		for _, line := range []string{
			"migrate --check", "run k -- true", "run --run a" + as.user + " k -- true", "run --shared k -- true",
			"ls", "show k", "wait k", "runs k", "reap --yes --runs 1h", "doctor --ignore RL250", // exit code 0: no warning
		} {
			if out, code := rowlock(as.user, as.more, strings.Fields(line)...); code != 0 {
				t.Errorf("%s: exit code %d\n%s", line, code, out)
			}
		}
	}
}
