package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

var (
	quota    = regexp.MustCompile(`\bMAX_(QUERIES|UPDATES|CONNECTIONS)_PER_HOUR ([1-9]\d*)`)
	inQuotes = regexp.MustCompile("'[^']*'|`[^`]*`")
)

// quotas looks at what the account may do in an hour: https://dev.mysql.com/doc/refman/9.7/en/user-resources.html
// Everybody may see how his own account was made.
func (e *Examination) quotas(ctx context.Context) error {
	const id = "RL133"
	if e.report.Ignores(id) {
		return nil
	}
	rows, err := e.sessions[0].ask(ctx, "SHOW CREATE USER CURRENT_USER()")
	if err != nil {
		return e.refused(id, err)
	}
	if seen := quota.FindAllString(inQuotes.ReplaceAllString(rows[0][0], "''"), -1); len(seen) > 0 {
		e.add(id, doctor.Warn, strings.Join(seen, ", "))
	} else {
		e.add(id, doctor.OK, "none")
	}
	return nil
}

// sees reports whether the account itself has a privilege on the schema or on all lock tables, without which
// information_schema shows nothing of what it is about. What comes by a role is not looked at.
func (e *Examination) sees(ctx context.Context, privilege string) (bool, error) {
	const of = " WHERE PRIVILEGE_TYPE='%s' AND GRANTEE=%s"
	grantee := conn.NewText(100).Key(e.user).String()
	n := 0
	for _, t := range e.Layout {
		text := fmt.Sprintf("SELECT 1 FROM information_schema.USER_PRIVILEGES"+of+
			" UNION SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES"+of+" AND DATABASE() LIKE TABLE_SCHEMA"+
			" UNION SELECT 1 FROM information_schema.TABLE_PRIVILEGES"+of+" AND TABLE_SCHEMA=DATABASE() AND TABLE_NAME='%s'",
			privilege, grantee, privilege, grantee, privilege, grantee, strings.Trim(t.Table, "`"))
		rows, err := e.sessions[0].ask(ctx, text)
		if err != nil {
			return false, err
		}
		if len(rows) > 0 {
			n++
		}
	}
	return n == len(e.Layout), nil
}
