package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

// privilege is one of connectionStatus.
type privilege struct {
	Resource struct {
		DB, Collection *string
		Any            bool `bson:"anyResource"`
	}
	Actions []string
}

// covers reports whether it is about a collection. An empty name stands for all.
func (p privilege) covers(db, collection string) bool {
	r := p.Resource
	return r.Any || r.DB != nil && r.Collection != nil && (*r.DB == "" || *r.DB == db) && (*r.Collection == "" || *r.Collection == collection)
}

// privileges asks which the user has, which every user may.
func (e *Examination) privileges(ctx context.Context) error {
	const id, stream = "RL210", "RL213"
	var status struct {
		Auth struct {
			Users      []struct{ User, DB string } `bson:"authenticatedUsers"`
			Privileges []privilege                 `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	if err := e.decode(ctx, bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}, &status); err != nil {
		return e.refused(err, id)
	}
	if len(status.Auth.Users) == 0 {
		return e.nobody(ctx)
	}
	e.add("RL211", doctor.OK, "yes")
	user := status.Auth.Users[0]
	has := func(action, name string) bool {
		return slices.ContainsFunc(status.Auth.Privileges, func(p privilege) bool {
			return p.covers(e.DB.Name(), name) && slices.Contains(p.Actions, action)
		})
	}
	var lacking []string
	for _, name := range e.Collections {
		for _, action := range []string{"find", "insert", "update", "remove"} {
			if !has(action, name) {
				lacking = append(lacking, action+" on "+name)
			}
		}
	}
	if len(lacking) > 0 {
		e.add(id, doctor.Fail, "missing: "+strings.Join(lacking, ", "), "user", user.User, "userdb", user.DB)
	} else {
		e.add(id, doctor.OK, user.User+" has all")
	}
	if has("changeStream", e.Leases) {
		e.add(stream, doctor.OK, "yes")
	} else {
		e.add(stream, doctor.Warn, "missing: changeStream on "+e.Leases, "user", user.User, "userdb", user.DB)
	}
	return nil
}

// nobody asks, without a user, for what every lock begins with.
func (e *Examination) nobody(ctx context.Context) error {
	const rights, refused = "RL210", "RL211"
	_, err := e.Runner.Read(ctx, bson.D{{Key: "find", Value: e.Leases}, {Key: "limit", Value: 1}, {Key: "projection", Value: document.Op("_id", 1)}})
	switch {
	case command.Hidden(err):
		e.add(refused, doctor.Fail, "nobody is logged in, and the server refuses to answer: "+command.Brief(err))
		return nil
	case err != nil && command.Code(err) == 0:
		return err
	}
	e.add(refused, doctor.OK, "yes")
	e.add(rights, doctor.Info, "nobody is logged in")
	return nil
}

// mayKill tries to end a session that nobody has, as Check does.
func (e *Examination) mayKill(ctx context.Context) error {
	const id = "RL212"
	if e.o.ReadOnly {
		e.add(id, doctor.Skipped, "Options.ReadOnly")
		return nil
	}
	switch err := e.Kill(ctx); {
	case err == nil:
		e.add(id, doctor.OK, "yes")
	case command.Hidden(err): // everybody who is logged in may end sessions of his own
		e.add(id, doctor.Skipped, "nobody is logged in")
	case errors.Is(err, driver.ErrNotSupported):
		e.add(id, doctor.Warn, err.Error())
	default:
		return err
	}
	return nil
}

// collections reports what Check finds.
func (e *Examination) collections(ctx context.Context) error {
	const missing, foreign = "RL220", "RL223"
	seen, fits := true, true
	for _, f := range e.Schema.Look(ctx) {
		switch {
		case f.Kind == schema.Unseen:
			e.add(missing, doctor.Skipped, f.Says)
			seen = false
			continue
		case f.Kind == schema.Missing:
			e.add(missing, doctor.Fail, f.Says)
			e.add(foreign, doctor.Skipped, f.Says)
			e.works = errors.New(f.Says)
			return nil
		case f.Kind == schema.Unfit:
			e.add(foreign, doctor.Fail, f.Says, "mend", f.Mend)
		case command.Hidden(f.Stop):
			e.add(foreign, doctor.Skipped, command.Brief(f.Stop))
		default:
			return f.Stop
		}
		if fits {
			fits, e.works = false, f.Stop
		}
	}
	if seen {
		e.add(missing, doctor.OK, fmt.Sprintf("%d", len(e.Collections)))
	}
	if fits {
		e.add(foreign, doctor.OK, "yes")
	}
	return nil
}

// shortLimit is too little for a statement that waits for a lock, as on MySQL.
const shortLimit = 2 * time.Second

const (
	mostUsed = command.MaxCommands // connections
	minConns = command.MinConns
)

// pool looks at the client's.
func (e *Examination) pool(ctx context.Context) error {
	const id = "RL231"
	switch err := e.Pool(ctx, e.hello); {
	case errors.Is(err, driver.ErrInvalid):
		e.add(id, doctor.Fail, err.Error())
		return nil
	case err != nil:
		return err
	}
	if e.report.Of(id) == nil {
		e.add(id, doctor.OK, fmt.Sprintf("%d or more", minConns))
	}
	return nil
}

// ReadURI looks at what the program's address asks for.
func (e *Examination) ReadURI() error {
	const pool, direct, concern, name, limit = "RL231", "RL232", "RL233", "RL234", "RL235"
	if e.o.URI == "" {
		for _, id := range []string{direct, concern, name, limit} {
			e.add(id, doctor.Skipped, "Options.URI is empty")
		}
		return nil
	}
	o := options.Client().ApplyURI(e.o.URI)
	if o.Validate() != nil {
		// The cause may have a part of the password in it.
		return fmt.Errorf("mongo: %w: doctor: URI cannot be read: it has the form mongodb://user:password@host:27017/database, with %% and @ in the password written as %%25 and %%40", driver.ErrInvalid)
	}
	if n := o.MaxPoolSize; n != nil && *n >= minConns && *n < mostUsed {
		e.add(pool, doctor.Warn, fmt.Sprintf("maxPoolSize is %d", *n))
	}
	if o.Direct != nil && *o.Direct {
		e.add(direct, doctor.Warn, "directConnection is true")
	} else {
		e.add(direct, doctor.OK, "no")
	}
	var odd []string
	if o.ReadPreference != nil && o.ReadPreference.Mode() != readpref.PrimaryMode {
		odd = append(odd, "readPreference is "+o.ReadPreference.Mode().String())
	}
	if o.WriteConcern != nil && o.WriteConcern.W != nil && o.WriteConcern.W != "majority" {
		odd = append(odd, fmt.Sprintf("w is %v", o.WriteConcern.W))
	}
	if len(odd) > 0 {
		e.add(concern, doctor.Warn, strings.Join(odd, "; "))
	} else {
		e.add(concern, doctor.OK, "primary, majority")
	}
	switch {
	case o.Timeout == nil || *o.Timeout == 0:
		e.add(limit, doctor.OK, "timeoutMS is not set")
	case *o.Timeout <= shortLimit:
		e.add(limit, doctor.Warn, fmt.Sprintf("timeoutMS is %d", o.Timeout.Milliseconds()))
	default:
		e.add(limit, doctor.OK, fmt.Sprintf("timeoutMS is %d", o.Timeout.Milliseconds()))
	}
	if o.AppName == nil || *o.AppName == "" {
		e.add(name, doctor.Info, "none")
	} else {
		e.add(name, doctor.OK, *o.AppName)
	}
	return nil
}
