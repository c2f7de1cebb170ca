package rowlockcli

import "github.com/spf13/cobra"

// examples are those of each command, without a name of the one above them. The word rowlock becomes the path of the commands, where they are mounted elsewhere.
var examples = map[string]string{
	"": `
  rowlock run report -- /usr/local/bin/report     run a command; everybody else waits until it has ended
  rowlock ls                                      who has what
  rowlock show report                             does the holder live?
  rowlock doctor                                  is the database good for locks?`,
	"run": `
  rowlock run report -- /usr/local/bin/report --daily
  rowlock run -x --period 10m report -- /usr/local/bin/report     in the crontab of several hosts: once in ten minutes
  rowlock run -n deploy -- ./deploy.sh                            exit code 75 if somebody else deploys
  rowlock run --wait 30m --max-hold 1h deploy -- ./deploy.sh      wait for it, and end it when it hangs
  rowlock run --slots 2 import -- ./import.sh                     two at a time`,
	"ls": `
  rowlock ls                          the keys that are taken
  rowlock ls import/ --older 1h       those that begin with import/ and are held for longer than an hour
  rowlock ls -o names --all           names only, of free keys too`,
	"show": `
  rowlock show report
  rowlock show -o json report`,
	"watch": `
  rowlock watch                       a line for each change
  rowlock watch import/`,
	"wait": `
  rowlock wait -w 10m report`,
	"free": `
  rowlock free report                             on a terminal: it asks
  rowlock free report --yes --token 1838470414625356800`,
	"reap": `
  rowlock reap                        say what would be removed
  rowlock reap --yes --runs 30d       remove it, and marks of runs that are older than 30 days`,
	"runs": `
  rowlock runs report`,
	"migrate": `
  rowlock migrate                     print the statements
  rowlock migrate --up                make the tables
  rowlock migrate --check             say whether something is missing`,
	"grants": `
  rowlock grants --user "'jobs'@'%'"`,
	"doctor": `
  rowlock doctor
  rowlock doctor --all --read-only`,
	"ui": `
  rowlock ui
  rowlock ui --users users --listen 10.0.0.5:8990 --tls-cert page.pem --tls-key page.key`,
	"version": `
  rowlock version -o json`,
}

// arrange puts the commands into groups, and says which other names people try.
func arrange(root *cobra.Command) {
	for _, g := range []struct {
		title, id string
		names     []string
	}{
		{"Run", "run", []string{"run", "wait"}},
		{"Look and mend", "look", []string{"ls", "show", "watch", "runs", "free", "reap", "ui"}},
		{"Set up", "setup", []string{"migrate", "grants", "doctor"}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range g.names {
			if c, _, err := root.Find([]string{name}); err == nil {
				c.GroupID = g.id
			}
		}
	}
	for name, tried := range map[string][]string{
		"run":     {"exec", "lock", "with", "do", "acquire"},
		"ls":      {"list", "locks", "keys"},
		"show":    {"status", "get", "info", "inspect", "who"},
		"free":    {"unlock", "release", "kill", "force", "delete", "rm"},
		"reap":    {"clean", "gc", "purge"},
		"runs":    {"history", "marks"},
		"migrate": {"init", "setup", "up", "create", "install"},
		"grants":  {"grant", "privileges", "user"},
		"doctor":  {"check", "test"},
		"ui":      {"web", "page", "serve", "dashboard"},
	} {
		if c, _, err := root.Find([]string{name}); err == nil {
			c.SuggestFor = tried
		}
	}
}

// otherNames are options of other programs, and what they are called here.
var otherNames = map[string]string{
	"nonblock": "no-wait", "nb": "no-wait", "nonblocking": "no-wait", "nowait": "no-wait",
	"url": "db", "dsn": "db", "uri": "db", "database": "db", "password": "password-file",
	"ssl-ca": "tls-ca", "ssl-cert": "tls-cert", "ssl-key": "tls-key", "json": "output", "format": "output",
	"expire": "ttl", "lease": "ttl", "max-time": "max-hold", "exit-code": "conflict-exit-code", "read": "shared",
}
