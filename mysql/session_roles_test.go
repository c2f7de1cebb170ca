package mysqllock

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestRolesThatWereLeft: where the rights to the tables come by a role, a connection in which a program has left others
// (SET ROLE) is thrown out of its pool.
func TestRolesThatWereLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		clean := l.over(t, l.poolOf(t))
		user, host, forAll := "s"+strings.ToLower(rand.Text()[:12]), "@'%'", ""
		role := user + "r"
		if l.kind == testserver.MySQL {
			forAll = " TO " + user + host
		} else {
			forAll = " FOR " + user + host
		}
		exec(t, l.db, "CREATE ROLE "+role)
		t.Cleanup(func() { exec(t, l.db, "DROP ROLE "+role) })
		exec(t, l.db, "CREATE USER "+user+host+" IDENTIFIED BY 'pw'")
		t.Cleanup(func() { exec(t, l.db, "DROP USER "+user+host) })
		exec(t, l.db, "GRANT ALL ON `"+l.config.DBName+"`.* TO "+role)
		exec(t, l.db, "GRANT "+role+" TO "+user+host)
		exec(t, l.db, "GRANT PROCESS ON *.* TO "+user+host)
		exec(t, l.db, "SET DEFAULT ROLE "+role+forAll)
		as := *l
		as.config = l.config.Clone()
		as.config.User, as.config.Passwd = user, "pw"
		for _, left := range []int{3, 10} {
			t.Run(fmt.Sprint(left, " of 10"), func(t *testing.T) {
				db := as.poolOf(t)
				all := leftOf(t, db, 10-left, sessionState{})
				all = append(all, leftOf(t, db, left, sessionState{statements: []string{"SET ROLE NONE"}})...)
				db.SetMaxIdleConns(len(all))
				giveBack(t, all)
				p := as.over(t, db)
				l.agree(t, fmt.Sprint("k", left), p, clean)
				l.agree(t, fmt.Sprint("l", left), clean, p)
			})
		}
		t.Run("changed meanwhile", func(t *testing.T) {
			db := as.poolOf(t)
			p := as.over(t, db)
			l.agree(t, "before", p, clean)
			exec(t, l.db, "GRANT ALL ON `"+l.config.DBName+"`.* TO "+user+host)
			exec(t, l.db, "SET DEFAULT ROLE NONE"+forAll)
			rows, err := l.db.Query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER=?", user)
			must(t, err)
			for rows.Next() {
				var id int
				must(t, rows.Scan(&id))
				_, _ = l.db.Exec(fmt.Sprint("KILL ", id)) // it may have ended
			}
			must(t, rows.Err())
			l.agree(t, "after", p, clean)
		})
	})
}
