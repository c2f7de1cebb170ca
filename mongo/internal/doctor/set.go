package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// setConfig is what is read of replSetGetConfig.
type setConfig struct {
	Config struct {
		JournalDefault bool `bson:"writeConcernMajorityJournalDefault"`
		Members        []struct {
			Host    string
			Arbiter bool `bson:"arbiterOnly"`
			Votes   int
			Delay   int64 `bson:"secondaryDelaySecs"`
		}
		Settings struct {
			ElectionTimeout int64 `bson:"electionTimeoutMillis"`
		}
	}
}

// setStatus is what is read of replSetGetStatus.
type setStatus struct {
	Majority int `bson:"writeMajorityCount"`
	Members  []struct {
		Name   string
		Health float64
		State  int
		Text   string    `bson:"stateStr"`
		Wall   time.Time `bson:"lastAppliedWallTime"`
	}
}

// States of a member.
const (
	statePrimary   = 1
	stateSecondary = 2
	stateArbiter   = 7
)

const (
	// slowElection is what an election takes after its time-out.
	slowElection = 2 * time.Second
	muchLag      = time.Second
)

// replicaSet looks at the members and at what they promise.
func (e *Examination) replicaSet(ctx context.Context) error {
	const journal, members, state, lag = "RL203", "RL205", "RL206", "RL207"
	switch e.is {
	case router:
		e.onShards(journal, members, state, lag)
		return nil
	case standalone, notBegun: // it has no others
		return nil
	}
	var c setConfig
	if err := e.decode(ctx, document.Op("replSetGetConfig", 1), &c); err != nil {
		return e.refused(err, journal, members, state, lag)
	}
	if e.o.Failover == 0 && len(c.Config.Members) > 1 {
		e.failover = time.Duration(c.Config.Settings.ElectionTimeout)*time.Millisecond + slowElection
	}
	if c.Config.JournalDefault {
		e.add(journal, doctor.OK, "writeConcernMajorityJournalDefault is true")
	} else {
		e.add(journal, doctor.Fail, "writeConcernMajorityJournalDefault is false")
	}
	votes := make(map[string]bool)
	var odd []string
	for _, m := range c.Config.Members {
		if m.Votes > 0 {
			votes[m.Host] = true
		}
		switch {
		case m.Arbiter:
			odd = append(odd, m.Host+" is an arbiter")
		case m.Votes > 0 && m.Delay > 0:
			odd = append(odd, fmt.Sprintf("%s has a vote and is %d s late", m.Host, m.Delay))
		}
	}
	if len(votes) == 2 {
		odd = append(odd, "two members have a vote")
	}
	if len(odd) > 0 {
		e.add(members, doctor.Warn, strings.Join(odd, "; "))
	} else {
		e.add(members, doctor.OK, fmt.Sprintf("%d with a vote", len(votes)))
	}
	var s setStatus
	if err := e.decode(ctx, document.Op("replSetGetStatus", 1), &s); err != nil {
		return e.refused(err, state, lag)
	}
	e.members(s, votes)
	return nil
}

// members looks at how the members with a vote are.
func (e *Examination) members(s setStatus, votes map[string]bool) {
	const state, lag = "RL206", "RL207"
	var down []string
	var applied []time.Time
	var primary time.Time
	for _, m := range s.Members {
		if !votes[m.Name] {
			continue
		}
		if m.Health == 0 || m.State != statePrimary && m.State != stateSecondary && m.State != stateArbiter {
			down = append(down, m.Name+" is "+m.Text)
		}
		if m.State == statePrimary {
			primary = m.Wall
		}
		if m.State != stateArbiter {
			applied = append(applied, m.Wall)
		}
	}
	value := fmt.Sprintf("a majority is %d of %d", s.Majority, len(votes))
	if len(down) > 0 {
		e.add(state, doctor.Warn, strings.Join(down, "; ")+"; "+value)
	} else {
		e.add(state, doctor.OK, value)
	}
	slices.SortFunc(applied, func(a, b time.Time) int { return b.Compare(a) })
	if primary.IsZero() || s.Majority < 1 || s.Majority > len(applied) {
		e.add(lag, doctor.Skipped, "no majority is seen")
		return
	}
	if behind := primary.Sub(applied[s.Majority-1]); behind > muchLag {
		e.add(lag, doctor.Warn, behind.String())
	} else {
		e.add(lag, doctor.OK, max(behind, 0).String())
	}
}

// decode sends a command to the database admin, and reads the answer.
func (e *Examination) decode(ctx context.Context, cmd bson.D, into any) error {
	reply, err := e.admin(ctx, cmd)
	if err != nil {
		return err
	}
	return bson.Unmarshal(reply, into)
}

const fewConnections = 100

// storage looks at what the member keeps its data in, and at how many may connect.
func (e *Examination) storage(ctx context.Context) error {
	const storage, connections = "RL204", "RL230"
	var s struct {
		Engine struct {
			Name       string
			Persistent bool
		} `bson:"storageEngine"`
		Connections struct{ Current, Available int64 }
	}
	cmd := document.Op("serverStatus", 1)
	for _, section := range []string{"repl", "metrics", "locks", "wiredTiger", "tcmalloc", "opLatencies", "globalLock", "extra_info", "network"} {
		cmd = append(cmd, bson.E{Key: section, Value: 0})
	}
	if err := e.decode(ctx, cmd, &s); err != nil {
		return e.refused(err, storage, connections)
	}
	switch {
	case s.Engine.Name == "":
		e.onShards(storage)
	case s.Engine.Persistent:
		e.add(storage, doctor.OK, s.Engine.Name)
	default:
		e.add(storage, doctor.Fail, s.Engine.Name)
	}
	value := fmt.Sprintf("%d, and %d are in use", s.Connections.Available, s.Connections.Current)
	if s.Connections.Available < fewConnections {
		e.add(connections, doctor.Warn, value)
	} else {
		e.add(connections, doctor.OK, value)
	}
	return nil
}

const longLife = 60 // seconds

// defaults looks at what holds for transactions of the program's own.
func (e *Examination) defaults(ctx context.Context) error {
	const life, concern = "RL208", "RL209"
	var p struct {
		Limit int64 `bson:"transactionLifetimeLimitSeconds"`
	}
	switch err := e.decode(ctx, bson.D{{Key: "getParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 1}}, &p); {
	case err != nil:
		if err := e.refused(err, life); err != nil {
			return err
		}
	case p.Limit > longLife:
		e.add(life, doctor.Warn, fmt.Sprintf("%d s", p.Limit))
	default:
		e.add(life, doctor.OK, fmt.Sprintf("%d s", p.Limit))
	}
	if e.is == standalone { // it has no majority
		return nil
	}
	reply, err := e.admin(ctx, document.Op("getDefaultRWConcern", 1))
	if err != nil {
		return e.refused(err, concern)
	}
	w, err := reply.LookupErr("defaultWriteConcern", "w")
	switch text, _ := w.StringValueOK(); {
	case err == nil && text == "majority":
		e.add(concern, doctor.OK, "majority")
	case err != nil:
		e.add(concern, doctor.Warn, "w is 1, where the URI says nothing")
	default:
		e.add(concern, doctor.Warn, "w is "+w.String())
	}
	return nil
}
