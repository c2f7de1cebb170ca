package testenv

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// sourced are replicas that follow one primary, by GTID. Who is the primary is decided here, as an operator or a tool
// does: nothing in the servers chooses one.
type sourced struct {
	list []*member
	semi bool         // each commit waits for a replica to have it
	now  atomic.Int32 // the primary; -1: none
}

func newSourced(list []*member, semi bool) *sourced {
	s := &sourced{list: list, semi: semi}
	s.now.Store(-1)
	return s
}

// arguments: every member starts read-only, until it is promoted. A commit waits for ever for one replica, also where
// none is there: a finite time-out would go on without.
func (s *sourced) arguments(_ int, m *member, _ []*member) []string {
	args := []string{
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--super-read-only=ON", "--skip-replica-start",
		"--report-host=127.0.0.1", fmt.Sprintf("--report-port=%d", m.port), "--replica-net-timeout=2",
		"--plugin-load-add=mysql_clone.so",
	}
	if s.semi {
		args = append(args, "--plugin-load-add=semisync_source.so", "--plugin-load-add=semisync_replica.so",
			"--rpl-semi-sync-replica-enabled=ON", "--rpl-semi-sync-source-timeout=4294967295",
			"--rpl-semi-sync-source-wait-point=AFTER_SYNC", "--rpl-semi-sync-source-wait-for-replica-count=1",
			"--rpl-semi-sync-source-wait-no-replica=ON")
	}
	return args
}

func (s *sourced) form(ctx context.Context) error {
	for _, m := range s.list {
		if err := m.start(); err != nil {
			return err
		}
	}
	for _, m := range s.list {
		if err := m.wait(ctx); err != nil {
			return err
		}
	}
	for i := 1; i < len(s.list); i++ {
		if err := s.follow(ctx, i, 0); err != nil {
			return err
		}
	}
	return s.crown(ctx, 0)
}

func (s *sourced) primary(context.Context) int { return int(s.now.Load()) }

func (s *sourced) look(ctx context.Context, _ int) (to int, why string) {
	return s.primary(ctx), "the primary was changed"
}

// follow makes one a replica of another.
func (s *sourced) follow(ctx context.Context, i, of int) error {
	m := s.list[i]
	if err := m.run(ctx, "STOP REPLICA IO_THREAD"); err != nil {
		return err
	}
	if err := m.stopApplier(ctx); err != nil {
		return err
	}
	statements := []string{"SET GLOBAL super_read_only=ON"}
	if s.semi {
		statements = append(statements, "SET GLOBAL rpl_semi_sync_source_enabled=OFF")
	}
	return m.run(ctx, append(statements,
		fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', SOURCE_PASSWORD='%s', "+
			"SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=0, SOURCE_HEARTBEAT_PERIOD=0.5",
			s.list[of].port, rootPassword), "START REPLICA")...)
}

// crown makes one the primary, after it has applied what it received. Replicas that are to acknowledge its commits have
// to follow it.
func (s *sourced) crown(ctx context.Context, i int) error {
	m := s.list[i]
	if err := m.run(ctx, "STOP REPLICA IO_THREAD"); err != nil {
		return err
	}
	for {
		all, err := m.ask(ctx, "SELECT IFNULL(MAX(GTID_SUBSET(RECEIVED_TRANSACTION_SET,@@GLOBAL.gtid_executed)),1) FROM performance_schema.replication_connection_status")
		if err != nil {
			return err
		}
		if all == "1" {
			break
		}
		if err := pollPause(ctx, m.gone); err != nil {
			return fmt.Errorf("it does not apply what it received: %w", err)
		}
	}
	if err := m.stopApplier(ctx); err != nil {
		return err
	}
	statements := []string{"RESET REPLICA ALL"}
	if s.semi {
		statements = append(statements, "SET GLOBAL rpl_semi_sync_source_enabled=ON")
	}
	if err := m.run(ctx, append(statements, "SET GLOBAL super_read_only=OFF", "SET GLOBAL read_only=OFF")...); err != nil {
		return err
	}
	s.now.Store(int32(i))
	return nil
}

// stopApplier stops the applier of a member that receives no more. It may have begun a transaction that was received in part:
// STOP REPLICA waits for the rest, for a minute (MySQL manual, "Replication and Transaction Inconsistencies"), and nobody
// may be there to send it. An applier that is killed does not wait, and rolls the part back, unless it was told to stop before.
func (m *member) stopApplier(ctx context.Context) error {
	for {
		applier, err := m.ask(ctx, "SELECT IFNULL(MAX(PROCESSLIST_ID),0) FROM performance_schema.replication_applier_status_by_coordinator JOIN performance_schema.threads USING (THREAD_ID)")
		if err != nil {
			return err
		}
		if applier == "0" {
			return m.run(ctx, "STOP REPLICA")
		}
		if err := m.run(ctx, "KILL "+applier); err != nil && !isError(err, 1094) { // it has ended
			return err
		}
		if err := pollPause(ctx, m.gone); err != nil {
			return fmt.Errorf("its applier does not end: %w", err)
		}
	}
}

// switchTo takes the right to write from the primary, waits until the next has all that was committed, and makes that
// the primary.
func (s *sourced) switchTo(ctx context.Context, to int) error {
	old := int(s.now.Load())
	if old < 0 || !s.list[old].up() || !s.list[to].up() {
		return fmt.Errorf("a switch needs a primary and member %d", to)
	}
	if err := s.list[old].stopWrites(ctx); err != nil {
		return err
	}
	executed, err := s.list[old].ask(ctx, "SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return err
	}
	if _, err := s.list[to].ask(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET('"+executed+"')"); err != nil { // without a time-out of its own
		return fmt.Errorf("it has not all that was committed: %w", err)
	}
	s.now.Store(-1)
	if err := s.crown(ctx, to); err != nil {
		return err
	}
	return s.others(ctx, to)
}

// stopWrites makes it read-only, which waits for the statements that are under way and lets no other begin. One of them may wait
// for a row of a transaction whose next statement waits behind this one, until innodb_lock_wait_timeout ends it after 50 s:
// so the others are let through after a while, and it is asked for again. Who waits for a key of SelectForUpdate does so for
// 5 s at a time, and soon again: a shorter while might never be enough.
func (m *member) stopWrites(ctx context.Context) error {
	for {
		err := m.run(ctx, "SET SESSION lock_wait_timeout=6", "SET GLOBAL super_read_only=ON", "SET SESSION lock_wait_timeout=DEFAULT")
		if !isError(err, 1205) {
			return err
		}
		if err := pollPause(ctx, m.gone); err != nil {
			return fmt.Errorf("its writes do not end: %w", err)
		}
	}
}

// others lets all that are up follow the primary.
func (s *sourced) others(ctx context.Context, primary int, except ...int) error {
	for _, i := range alive(s.list) {
		if i == primary || len(except) > 0 && i == except[0] {
			continue
		}
		if err := s.follow(ctx, i, primary); err != nil {
			return fmt.Errorf("member %d follows member %d: %w", i, primary, err)
		}
	}
	return nil
}

// promote leaves the old primary alone, whatever its state is: it may be out of reach.
func (s *sourced) promote(ctx context.Context) error {
	old := int(s.now.Load())
	s.now.Store(-1)
	best, most := -1, ""
	for _, i := range alive(s.list) {
		if i == old {
			continue
		}
		// Stopped first, so that it does not receive more once it was compared.
		if err := s.list[i].run(ctx, "STOP REPLICA IO_THREAD"); err != nil {
			return err
		}
		has, err := s.list[i].ask(ctx, "SELECT CONCAT_WS(',',NULLIF(@@GLOBAL.gtid_executed,''),(SELECT NULLIF(MAX(RECEIVED_TRANSACTION_SET),'') FROM performance_schema.replication_connection_status))")
		if err != nil {
			return err
		}
		more := "1"
		if best >= 0 {
			if more, err = s.list[i].ask(ctx, "SELECT GTID_SUBSET('"+most+"','"+has+"')"); err != nil {
				return err
			}
		}
		if more == "1" {
			best, most = i, has
		}
	}
	if best < 0 {
		return fmt.Errorf("no member but %d is up", old)
	}
	if err := s.crown(ctx, best); err != nil {
		return err
	}
	return s.others(ctx, best, old)
}

// rejoin makes a member a replica of the primary. One that was killed or frozen, or took writes before, is started
// anew: a commit of it may wait for an acknowledgement for ever, and keep it from becoming read-only.
func (s *sourced) rejoin(ctx context.Context, i int) error {
	m, now := s.list[i], int(s.now.Load())
	if now < 0 || i == now {
		return fmt.Errorf("there is no other primary to follow")
	}
	if err := m.kill(); err != nil {
		return err
	}
	if err := m.startAndWait(ctx); err != nil {
		return err
	}
	executed, err := m.ask(ctx, "SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return err
	}
	known, err := s.list[now].ask(ctx, "SELECT GTID_SUBSET('"+executed+"',@@GLOBAL.gtid_executed)")
	if err != nil {
		return err
	}
	if known != "1" {
		if err := s.clone(ctx, i, now); err != nil {
			return err
		}
	}
	return s.follow(ctx, i, now)
}

// clone replaces the data of one by those of another.
func (s *sourced) clone(ctx context.Context, i, from int) error {
	m := s.list[i]
	err := m.run(ctx, "SET GLOBAL super_read_only=OFF", "SET GLOBAL read_only=OFF",
		fmt.Sprintf("SET GLOBAL clone_valid_donor_list='%s'", s.list[from].addr()),
		fmt.Sprintf("CLONE INSTANCE FROM 'root'@'127.0.0.1':%d IDENTIFIED BY '%s'", s.list[from].port, rootPassword))
	if err != nil && !isError(err, 3707) { // it ends, because nobody here starts it again by itself
		return err
	}
	select {
	case <-m.p.done:
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.kill(); err != nil {
		return err
	}
	return m.startAndWait(ctx)
}

// serves: whoever promotes one tells its agent too, so that one that was frozen does not pass for the primary.
func (s *sourced) serves(ctx context.Context, i int) error {
	readOnly, err := s.list[i].ask(ctx, "SELECT @@GLOBAL.super_read_only")
	if err == nil && (readOnly != "0" || int(s.now.Load()) != i) {
		err = errReadOnly
	}
	return err
}

// settled: it receives and applies.
func (s *sourced) settled(ctx context.Context, i int) error {
	if i == int(s.now.Load()) {
		return nil
	}
	state, err := s.list[i].ask(ctx, "SELECT CONCAT(c.SERVICE_STATE,' ',a.SERVICE_STATE,' ',c.LAST_ERROR_MESSAGE) FROM performance_schema.replication_connection_status c JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME)")
	if err == nil && state != "ON ON " {
		err = fmt.Errorf("receiver and applier are %s", state)
	}
	return err
}
