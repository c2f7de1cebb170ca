package mongolock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// collections of the Store, the one of New first.
func (s *Store) collections() []string {
	return []string{s.leases, s.fences, s.runs, s.txs, s.waits}
}

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
func (e *examination) privileges(ctx context.Context) error {
	const id, waking = "RL210", "RL213"
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
			return p.covers(e.s.db.Name(), name) && slices.Contains(p.Actions, action)
		})
	}
	var lacking []string
	for _, name := range e.s.collections() {
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
	if has("changeStream", e.s.leases) {
		e.add(waking, doctor.OK, "yes")
	} else {
		e.add(waking, doctor.Warn, "missing: changeStream on "+e.s.leases, "user", user.User, "userdb", user.DB)
	}
	return nil
}

// nobody asks, without a user, for what every lock begins with.
func (e *examination) nobody(ctx context.Context) error {
	const rights, refused = "RL210", "RL211"
	_, err := e.s.cmd.Read(ctx, bson.D{{Key: "find", Value: e.s.leases}, {Key: "limit", Value: 1}, {Key: "projection", Value: document.Op("_id", 1)}})
	switch {
	case hidden(err):
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
func (e *examination) mayKill(ctx context.Context) error {
	const id = "RL212"
	if e.o.ReadOnly {
		e.add(id, doctor.Skipped, "Options.ReadOnly")
		return nil
	}
	switch err := e.s.checkKill(ctx); {
	case err == nil:
		e.add(id, doctor.OK, "yes")
	case hidden(err): // everybody who is logged in may end sessions of his own
		e.add(id, doctor.Skipped, "nobody is logged in")
	case errors.Is(err, driver.ErrNotSupported):
		e.add(id, doctor.Warn, err.Error())
	default:
		return err
	}
	return nil
}

// collections looks at each as Check does.
func (e *examination) collections(ctx context.Context) error {
	const missing, foreign = "RL220", "RL223"
	docs, err := e.s.cmd.Documents(ctx, bson.D{
		{Key: "listCollections", Value: 1},
		{Key: "nameOnly", Value: true},
		{Key: "filter", Value: document.Op("name", document.Op("$in", e.s.collections()))},
	})
	switch {
	case hidden(err):
		e.add(missing, doctor.Skipped, command.Brief(err))
	case err != nil:
		return err
	default:
		lacking := e.s.collections()
		for _, doc := range docs {
			name, _ := doc.Lookup("name").StringValueOK()
			lacking = slices.DeleteFunc(lacking, func(n string) bool { return n == name })
		}
		if len(lacking) > 0 {
			value := "missing: " + strings.Join(lacking, ", ")
			e.add(missing, doctor.Fail, value)
			e.add(foreign, doctor.Skipped, value)
			e.works = errors.New(value)
			return nil
		}
		e.add(missing, doctor.OK, fmt.Sprintf("%d", len(docs)))
	}
	mend := ""
	if err = e.s.checkCollections(ctx); err == nil {
		mend = "rowlock migrate --up"
		err = e.s.checkLayout(ctx)
	}
	if unfit := (*misfit)(nil); errors.As(err, &unfit) {
		mend = unfit.mend
	}
	switch {
	case err == nil:
		e.add(foreign, doctor.OK, "yes")
	case errors.Is(err, driver.ErrSchema):
		e.add(foreign, doctor.Fail, err.Error(), "mend", mend)
		e.works = err
	case hidden(err):
		e.add(foreign, doctor.Skipped, command.Brief(err))
		e.works = err
	default:
		return err
	}
	return nil
}

const (
	mostUsed = command.MaxCommands // connections
	minConns = command.MinConns
)

// pool looks at the client's.
func (e *examination) pool(ctx context.Context) error {
	const id = "RL231"
	switch err := e.s.cmd.CheckPool(ctx, e.hello); {
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

// readURI looks at what the program's address asks for.
func (e *examination) readURI() error {
	const pool, direct, concern, name = "RL231", "RL232", "RL233", "RL234"
	if e.o.URI == "" {
		for _, id := range []string{direct, concern, name} {
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
	if o.AppName == nil || *o.AppName == "" {
		e.add(name, doctor.Info, "none")
	} else {
		e.add(name, doctor.OK, *o.AppName)
	}
	return nil
}
