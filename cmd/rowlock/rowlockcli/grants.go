package rowlockcli

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	mysqllock "github.com/rowlock/rowlock/mysql"
)

func (a *app) grantsCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Print the statements that make a user with the privileges that locks need",
		Long: `Prints the statements that make a user and give it what locks need: for MySQL and MariaDB the four verbs on the
tables of the strategy, for MongoDB a role, for mongosh. Nothing is sent to the database; an administrator pipes them
into the client: rowlock grants | tee grants.sql | mysql. The tables (MongoDB: the collections) must be there first.
A user that is there stays as it is. A new one gets a password that is random: it is in what is printed.`,
		Args: cobra.NoArgs,
		RunE: a.command(func(cmd *cobra.Command, _ []string) error {
			if a.config.Open != nil {
				return invalid("the statements are not known here")
			}
			s, err := a.settings()
			if err != nil {
				return err
			}
			if s.address.kind == "mongodb" {
				_, err = fmt.Fprint(cmd.OutOrStdout(), mongoGrants(s, cmp.Or(user, "app")))
				return err
			}
			text, err := mysqlGrants(s, cmp.Or(user, "'app'@'%'"))
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&user, "user", "", "the `user`: 'app'@'%' otherwise, as GRANT has it, and for MongoDB app")
	return cmd
}

// tablesOf says which strategy a table belongs to; those of no strategy are for all.
var tablesOf = map[string]mysqllock.Strategy{
	"version": mysqllock.VersionColumn, "share": mysqllock.VersionColumn,
	"unique": mysqllock.UniqueInsert, "share_unique": mysqllock.UniqueInsert,
	"session": mysqllock.SelectForUpdate, "session_row": mysqllock.SelectForUpdate, "share_session": mysqllock.SelectForUpdate,
}

var createTable = regexp.MustCompile(`(?m)^CREATE TABLE IF NOT EXISTS (\w+)`)

// account is what may stand in a GRANT for a user: it is printed for a person who runs it.
var account = regexp.MustCompile(`^[^;\n\r]+$`)

func mysqlGrants(s settings, user string) (string, error) {
	if !account.MatchString(user) {
		return "", invalid("--user %q is no user: it has the form 'app'@'%%'", user)
	}
	statements, err := mysqlStatements(s.prefix)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- in mysql, as an administrator. The password is random, and for a new user only.\nCREATE USER IF NOT EXISTS %s IDENTIFIED BY '%s';\n", user, newPassword())
	for _, m := range createTable.FindAllStringSubmatch(statements, -1) {
		if of, one := tablesOf[strings.TrimPrefix(m[1], s.prefix+"_")]; one && of != s.strategy {
			continue
		}
		fmt.Fprintf(&b, "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.`%s` TO %s;\n", strings.ReplaceAll(s.address.name, "`", "``"), m[1], user)
	}
	return b.String(), nil
}

// newPassword is what policies of servers take: letters of both kinds, figures and another sign.
func newPassword() string { return "a-" + rand.Text() + "7" }

func mongoGrants(s settings, user string) string {
	database, of := s.address.name, s.address.authSource()
	var resources []string
	for _, suffix := range mongoCollections {
		more := ""
		if suffix == "" {
			more = `, "changeStream"` // wakes those who wait
		}
		resources = append(resources, fmt.Sprintf(`    {"resource": {"db": %q, "collection": %q}, "actions": ["find", "insert", "update", "remove"%s]}`, database, s.collection+suffix, more))
	}
	return fmt.Sprintf(`// in mongosh, as an administrator. The password is random, and for a new user only.
if (!db.getSiblingDB(%[1]q).getRole("rowlock")) db.getSiblingDB(%[1]q).runCommand({"createRole": "rowlock", "privileges": [], "roles": []})
db.getSiblingDB(%[1]q).runCommand({
  "updateRole": "rowlock",
  "privileges": [
%[2]s
  ],
  "roles": []
})
if (!db.getSiblingDB(%[3]q).getUser(%[4]q)) db.getSiblingDB(%[3]q).createUser({"user": %[4]q, "pwd": %[5]q, "roles": []})
db.getSiblingDB(%[3]q).runCommand({"grantRolesToUser": %[4]q, "roles": [{"role": "rowlock", "db": %[1]q}]})
`, database, strings.Join(resources, ",\n"), of, user, newPassword())
}
