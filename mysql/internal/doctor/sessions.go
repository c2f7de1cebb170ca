package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// transactions looks for those that are open for long and lock rows. An exclusive hold of SelectForUpdate is one too, and
// who waits in the server's queue has done nothing wrong.
func (e *Examination) transactions(ctx context.Context) error {
	const id = "RL150"
	if e.report.Ignores(id) {
		return nil
	}
	text := fmt.Sprintf("SELECT trx_mysql_thread_id,TIMESTAMPDIFF(SECOND,trx_started,NOW()),trx_rows_locked FROM information_schema.INNODB_TRX"+
		" WHERE trx_started<=NOW()-INTERVAL %d SECOND AND trx_state<>'LOCK WAIT' AND trx_rows_locked+trx_rows_modified>0", int64(e.o.OldTransaction.Seconds()))
	if e.Sessions != "" && e.fit {
		text += " AND trx_mysql_thread_id NOT IN (SELECT conn_id FROM " + e.Sessions + " WHERE conn_id IS NOT NULL)"
	}
	rows, err := e.sessions[0].ask(ctx, text+" ORDER BY trx_started LIMIT 50")
	if err != nil {
		return e.refused(id, err)
	}
	for _, r := range rows {
		whose, end := "session "+r[0], "KILL "+r[0]
		if r[0] == "0" {
			whose, end = "a prepared XA branch", "XA RECOVER"
		}
		e.add(id, doctor.Warn, fmt.Sprintf("%s: open for %s s, about %s rows locked", whose, r[1], r[2]), "whose", whose, "end", end)
	}
	if len(rows) == 0 {
		e.add(id, doctor.OK, "none that locks rows is older than "+e.o.OldTransaction.String())
	}
	return nil
}

const (
	proxySessions = 3
	proxyRounds   = 5
)

// Proxies looks for what stands between us and the server. Statements that a proxy treats differently come late: an @ in
// one ends ProxySQL's multiplexing of that session.
func (e *Examination) Proxies(ctx context.Context) error {
	const proxySQL, sessions, servers = "RL170", "RL171", "RL172"
	_, err := e.sessions[0].ask(ctx, "PROXYSQL INTERNAL SESSION")
	switch {
	case err == nil:
		e.add(proxySQL, doctor.Info, "yes")
	case conn.Number(err) == 0:
		return err
	default:
		e.add(proxySQL, doctor.OK, "no")
	}
	several, err := e.several(ctx, proxySessions)
	if err != nil {
		return err
	}
	if len(several) < 2 {
		for _, id := range []string{sessions, servers} {
			e.add(id, doctor.Skipped, "the pool has no second connection to give")
		}
		return nil
	}
	numbers, err := inTurn(ctx, several, "SELECT CONNECTION_ID() AS n")
	if err != nil {
		return err
	}
	shared := doctor.Info
	if e.Sessions != "" {
		shared = doctor.Fail
	}
	all := make(map[string]bool)
	changes := false
	for _, of := range numbers {
		changes = changes || len(of) > 1
		for number := range of {
			all[number] = true
		}
	}
	value := fmt.Sprintf("%s were %s", count(len(several), "connection"), count(len(all), "session"))
	if changes || len(all) != len(several) {
		e.add(sessions, shared, value)
	} else {
		e.add(sessions, doctor.OK, value)
	}
	names, err := inTurn(ctx, several, "SELECT "+conn.ServerName)
	if err != nil {
		return err
	}
	clear(all)
	var found []string
	for _, of := range names {
		for name := range of {
			if !all[name] {
				all[name] = true
				found = append(found, name)
			}
		}
	}
	if value = strings.Join(found, ", "); len(found) > 1 {
		e.add(servers, doctor.Fail, value)
	} else {
		e.add(servers, doctor.OK, value)
	}
	return nil
}

// inTurn asks each session in turn, several times, and returns the different answers that each gave.
func inTurn(ctx context.Context, sessions []*plainSession, text string) ([]map[string]bool, error) {
	answers := make([]map[string]bool, len(sessions))
	for range proxyRounds {
		for i, on := range sessions {
			rows, err := on.ask(ctx, text)
			if err != nil {
				return nil, err
			}
			if answers[i] == nil {
				answers[i] = make(map[string]bool)
			}
			answers[i][rows[0][0]] = true
		}
	}
	return answers, nil
}

const clockLooks = 9

// clock compares the server's with ours. Half of the trip is the error.
func (e *Examination) clock(ctx context.Context) error {
	for i := range clockLooks {
		before := time.Now()
		rows, err := e.sessions[0].ask(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))")
		if err != nil {
			return err
		}
		trip := time.Since(before)
		var micros int64
		if _, err := fmt.Sscan(rows[0][0], &micros); err != nil {
			return fmt.Errorf("the server's time is %q: %w", rows[0][0], err)
		}
		if skew := time.UnixMicro(micros).Sub(before.Add(trip / 2)); i == 0 || trip/2 < e.report.SkewError {
			e.report.Skew, e.report.SkewError = skew, trip/2
		}
	}
	e.add("RL160", doctor.Info, e.report.Clock())
	return nil
}
