package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"strings"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/internal/words"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Doctor looks for what is wrong with the database as a place for locks: settings, privileges, tables, proxies, clock and
// latency. docs/doctor.md lists all that it can find; nothing of that is an error. Where Check asks whether locks work at
// all, Doctor also finds what makes them slow, or less safe after a fault.
//
// It changes no row but those of a key of its own, which it takes, renews and releases to measure, and removes; and with
// Options.ReadOnly not these. It opens up to three connections beside the Store's and closes them. It takes some tenths of a
// second, two seconds more where KILL does not work, and may be called at any time, also before Migrate.
//
// Errors: rowlock.ErrInvalid for options that cannot be used, rowlock.ErrClosed, and those of the connection, of ctx too;
// the report is nil then. A question that the user has no right to ask is a finding with severity Skipped.
func (s *Store) Doctor(ctx context.Context, o doctor.Options) (*doctor.Report, error) {
	if s.closed.Load() {
		return nil, conn.ErrClosed()
	}
	table := doctor.MySQL()
	o, err := o.Fill(table)
	if err != nil {
		return nil, conn.NotSent("doctor", err)
	}
	e := &examination{s: s, o: o, report: doctor.New(table, o), failover: o.Failover}
	defer e.end()
	if err := e.run(ctx); err != nil {
		return nil, conn.NotSent("doctor", err)
	}
	e.report.Sort()
	return e.report, nil
}

// examination is one run of Doctor.
type examination struct {
	s      *Store
	o      doctor.Options
	report *doctor.Report

	sessions []*plainSession // the first is always there
	mariaDB  bool
	writable bool
	settings map[string]string // global variables, by their names in small letters
	status   map[string]string // the same of SHOW STATUS
	user     string            // as GRANT takes it
	database string
	fit      bool // the tables can be used
	seesAll  bool // sessions of other users
	replicas int  // that are seen
	failover time.Duration
}

// statusNames are what is read of SHOW STATUS.
var statusNames = []string{"Connection_errors_max_connections", "Innodb_redo_log_enabled", "Threads_connected"}

func (e *examination) run(ctx context.Context) error {
	first, err := e.open(ctx)
	if err != nil {
		return err
	}
	if e.settings, err = first.pairs(ctx, "SHOW GLOBAL VARIABLES"); err != nil {
		return err
	}
	e.mariaDB = isMariaDB(e.settings["version"])
	e.report.Strategy = e.s.options.Strategy.String()
	e.server()
	if err := e.takesWrites(ctx); err != nil {
		return err
	}
	if serves, err := e.cluster(ctx); err != nil || !serves {
		return err
	}
	if err := e.read(ctx, first); err != nil {
		return err
	}
	e.durability()
	e.limits()
	for _, step := range []func(context.Context) error{
		e.connections,
		e.tables, e.attached, e.privileges, e.otherTables, e.mayCreate, e.deadRows,
		e.transactions,
		e.clock, e.latency,
		e.proxies, // GET_LOCK last: a proxy may treat a session that has used it differently
		e.killing, e.namedLocks,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read reads what a server says that can serve. It needs no privilege.
func (e *examination) read(ctx context.Context, on *plainSession) (err error) {
	if e.status, err = on.pairs(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('"+strings.Join(statusNames, "','")+"')"); err != nil {
		return err
	}
	rows, err := on.ask(ctx, "SELECT CURRENT_USER(), DATABASE()")
	if err != nil {
		return err
	}
	user := rows[0][0]
	at := strings.LastIndex(user, "@")
	e.user, e.database = "'"+user[:max(at, 0)]+"'@'"+user[at+1:]+"'", rows[0][1]
	return nil
}

// add adds a finding. What stands for {SET} and so on in the table's texts is added to with.
func (e *examination) add(id string, s doctor.Severity, value string, with ...string) {
	set := "SET PERSIST"
	if e.mariaDB {
		set = "SET GLOBAL"
	}
	e.report.Add(id, s, value, append(with, "SET", set, "user", e.user, "database", e.database)...)
}

// refused makes an answer of the server to a question a finding: it was skipped. Any other error comes back.
func (e *examination) refused(id string, err error) error {
	if conn.Number(err) == 0 {
		return err
	}
	e.add(id, doctor.Skipped, err.Error())
	return nil
}

// own are the names of the tables that the Store uses, as values of a list in SQL.
func (e *examination) own() string {
	var b strings.Builder
	for i, t := range e.s.layout() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + strings.Trim(t.Table, "`") + "'")
	}
	return b.String()
}

// plainSession is a connection of a Doctor's own. Nothing is set on it, so that a proxy treats it as it does a program's.
type plainSession struct {
	*sql.Conn
	db *conn.DB
}

// open opens one more.
func (e *examination) open(ctx context.Context) (*plainSession, error) {
	sc, err := e.s.db.Plain(ctx)
	if err != nil {
		return nil, err
	}
	on := &plainSession{sc, e.s.db}
	e.sessions = append(e.sessions, on)
	return on, nil
}

// several makes it n sessions, or fewer, but at least one, where a program's pool has no more to give.
func (e *examination) several(ctx context.Context, n int) ([]*plainSession, error) {
	for len(e.sessions) < n {
		waiting, cancel := context.WithTimeout(ctx, conn.OpenWait)
		_, err := e.open(waiting)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return e.sessions, nil
		}
	}
	return e.sessions[:n], nil
}

// end closes all sessions for good: a program's pool gets none of them back.
func (e *examination) end() {
	for _, on := range e.sessions {
		_ = on.Raw(func(any) error { return sqldriver.ErrBadConn })
		_ = on.Close()
	}
}

// ask sends a question and returns the answer as text; NULL is empty.
func (on *plainSession) ask(ctx context.Context, text string) (found [][]string, err error) {
	on.db.Statements.Add(1)
	rows, err := on.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make([]string, len(columns))
		for i, v := range values {
			row[i] = v.String
		}
		found = append(found, row)
	}
	return found, rows.Err()
}

// pairs asks for names and values. Names come back in small letters.
func (on *plainSession) pairs(ctx context.Context, text string) (map[string]string, error) {
	rows, err := on.ask(ctx, text)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(rows))
	for _, r := range rows {
		found[strings.ToLower(r[0])] = r[1]
	}
	return found, nil
}

// exec sends a statement that has no rows.
func (on *plainSession) exec(ctx context.Context, text string) error {
	on.db.Statements.Add(1)
	_, err := on.ExecContext(ctx, text)
	return err
}

// count is a number with its noun.
func count(n int, noun string) string {
	return words.Count(n, noun, noun+"s")
}
