package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// group is Group Replication with one primary, which the group chooses by itself.
type group struct{ list []*member }

const groupName = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

// arguments: unreachable-majority-timeout stays 0. With 5 and rejoining by itself a group was seen to lose commits that
// it had acknowledged: members without a majority leave, and one that was away begins a group of its own.
//
// A member that comes back takes part once it has applied what was written meanwhile. On a busy machine 4 appliers (the
// default) do 100 transactions a second, 16 do 200, and the primary does more: it must wait for who is 500 behind, not
// 25000 (the default), else one that was away is not back for as long as clients write.
func (g *group) arguments(_ int, m *member, all []*member) []string {
	return []string{
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON",
		"--report-host=127.0.0.1", fmt.Sprintf("--report-port=%d", m.port),
		"--plugin-load-add=group_replication.so", "--group-replication-group-name=" + groupName,
		"--group-replication-start-on-boot=OFF", "--group-replication-bootstrap-group=OFF",
		"--group-replication-communication-stack=MYSQL", "--group-replication-local-address=" + m.addr(),
		"--group-replication-group-seeds=" + hosts(all, func(m *member) string { return m.addr() }),
		"--group-replication-recovery-get-public-key=ON",
		"--group-replication-member-expel-timeout=0", "--group-replication-single-primary-mode=ON",
		"--group-replication-exit-state-action=READ_ONLY", "--group-replication-message-cache-size=134217728",
		"--group-replication-unreachable-majority-timeout=0", "--group-replication-autorejoin-tries=3",
		"--group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER",
		"--replica-parallel-workers=16",
		"--group-replication-flow-control-applier-threshold=500", "--group-replication-flow-control-certifier-threshold=500",
	}
}

func (g *group) form(ctx context.Context) error {
	for _, m := range g.list {
		if err := m.start(); err != nil {
			return err
		}
	}
	for _, m := range g.list {
		if err := m.wait(ctx); err != nil {
			return err
		}
		if err := m.run(ctx, "CHANGE REPLICATION SOURCE TO SOURCE_USER='root', SOURCE_PASSWORD='"+rootPassword+"' FOR CHANNEL 'group_replication_recovery'"); err != nil {
			return err
		}
	}
	if err := g.list[0].run(ctx, "SET GLOBAL group_replication_bootstrap_group=ON", "START GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group=OFF"); err != nil {
		return err
	}
	for _, m := range g.list[1:] {
		if err := m.run(ctx, "START GROUP_REPLICATION"); err != nil {
			return err
		}
	}
	for i, m := range g.list {
		for g.settled(ctx, i) != nil {
			if err := pollPause(ctx, m.gone); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *group) switchTo(ctx context.Context, to int) error {
	id, err := g.list[to].ask(ctx, "SELECT @@server_uuid")
	if err != nil {
		return err
	}
	_, err = g.list[to].ask(ctx, "SELECT group_replication_set_as_primary('"+id+"')")
	return err
}

// promote waits until the group has chosen one that is not away.
func (g *group) promote(ctx context.Context) error {
	for {
		if at := g.primary(ctx); at >= 0 && g.list[at].up() {
			return nil
		}
		if err := pollPause(ctx, nobodyGone); err != nil {
			return fmt.Errorf("the group chooses no primary: %w", err)
		}
	}
}

// rejoin starts Group Replication on a member that is out, unless it comes back by itself. One that was frozen or cut off
// may not know yet that it was shut out.
func (g *group) rejoin(ctx context.Context, i int) error {
	m := g.list[i]
	switch {
	case m.p == nil:
		if err := m.startAndWait(ctx); err != nil {
			return err
		}
	case m.paused:
		if err := m.resume(); err != nil {
			return err
		}
	}
	last := "silent"
	for begin := time.Now(); ; {
		state, err := m.ask(ctx, "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID=@@server_uuid OR MEMBER_ID=''")
		if err == nil {
			last = state
		}
		switch {
		case err == nil && state == "ONLINE" && g.settled(ctx, i) == nil && g.known(ctx, i):
			return nil
		case err == nil && state == "ERROR" && time.Since(begin) > 5*time.Second, err == nil && state == "OFFLINE":
			if state == "ERROR" {
				_ = m.run(ctx, "STOP GROUP_REPLICATION")
			}
			if err = m.run(ctx, "START GROUP_REPLICATION"); err == nil {
				continue
			}
		}
		if stop := pollPause(ctx, m.gone); stop != nil {
			return fmt.Errorf("it is %s in the group: %w", last, errors.Join(stop, err))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// known reports whether the primary sees the member take part.
func (g *group) known(ctx context.Context, i int) bool {
	at := g.primary(ctx)
	if at < 0 {
		return false
	}
	state, err := g.list[at].ask(ctx, fmt.Sprintf("SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_PORT=%d", g.list[i].port))
	return err == nil && state == "ONLINE"
}

// serves: it says that it is the primary, in a group of which it sees a majority.
func (g *group) serves(ctx context.Context, i int) error {
	primary, err := g.list[i].ask(ctx, "SELECT NOT @@GLOBAL.super_read_only AND "+
		"EXISTS(SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_ID=@@server_uuid AND MEMBER_STATE='ONLINE' AND MEMBER_ROLE='PRIMARY') AND "+
		"(SELECT 2*SUM(MEMBER_STATE='ONLINE')>COUNT(*) FROM performance_schema.replication_group_members)")
	if err == nil && primary != "1" {
		err = errReadOnly
	}
	return err
}

// settled: it says that it takes part.
func (g *group) settled(ctx context.Context, i int) error {
	state, err := g.list[i].ask(ctx, "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID=@@server_uuid")
	if err == nil && state != "ONLINE" {
		err = fmt.Errorf("it is %s in the group", state)
	}
	return err
}
