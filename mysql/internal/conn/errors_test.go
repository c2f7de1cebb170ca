package conn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
)

func said(number uint16, text string) error {
	return fmt.Errorf("somewhere: %w", &mysql.MySQLError{Number: number, Message: text})
}

// TestTwoQuestions: whether anything was done and whether it lasts are two questions about an answer of the server.
func TestTwoQuestions(t *testing.T) {
	const index = "Duplicate entry 'a' for key '%s'"
	for _, c := range []struct {
		number        uint16
		text          string
		done, lasts   bool
		schema, other bool // ErrSchema; the answer to a COMMIT that proves nothing was done
	}{
		{number: 1364, lasts: true, schema: true},
		{number: 3819, lasts: true, schema: true},
		{number: 4025, lasts: true, schema: true},
		{number: 1452, lasts: true, schema: true},
		{number: 1406, lasts: true, schema: true},
		{number: 1265, lasts: true, schema: true},
		{number: 1136, lasts: true, schema: true},
		{number: 1644, lasts: true, schema: true},
		{number: 1442, lasts: true, schema: true},
		{number: 1146, lasts: true, schema: true},
		{number: 1062, text: fmt.Sprintf(index, "own"), lasts: true, schema: true},
		{number: 1062, text: fmt.Sprintf(index, "rowlock_version.own"), lasts: true, schema: true},
		{number: 1062, text: fmt.Sprintf(index, "rowlock_version.PRIMARY")},
		{number: 1062, text: fmt.Sprintf(index, "guard")},
		{number: 1142, lasts: true},
		{number: 1045, lasts: true},
		{number: 1227, lasts: true},
		{number: 1370, lasts: true},
		{number: 1449, lasts: true},
		{number: 1665, lasts: true},
		{number: 1785, lasts: true},
		{number: 1104, lasts: true},
		{number: 3098, lasts: true},
		{number: 3750, lasts: true},
		{number: 3989, lasts: true},

		{number: 1205, other: true}, {number: 1213, other: true},
		{number: 1040, other: true}, {number: 1203, other: true}, {number: 1226, other: true},
		{number: 1290, other: true}, {number: 1792, other: true}, {number: 1836, other: true}, {number: 1047, other: true},
		{number: 1969, other: true}, {number: 3024, other: true},
		{number: 1114}, {number: 1021}, {number: 1030}, {number: 1041}, {number: 1129}, {number: 3032}, {number: 1999}, {number: 4999},

		{number: 1105, done: true}, {number: 1053, done: true}, {number: 1180, done: true}, {number: 1927, done: true},
		{number: 2013, done: true}, {number: 9001, done: true}, {number: 8501, done: true},
	} {
		t.Run(fmt.Sprint(c.number, c.text), func(t *testing.T) {
			err := Classify("acquire", said(c.number, c.text))
			if driver.IsNotApplied(err) == c.done || driver.IsLasting(err) != c.lasts || errors.Is(err, driver.ErrSchema) != c.schema {
				t.Errorf("not applied %v, lasting %v, schema %v: %v", driver.IsNotApplied(err), driver.IsLasting(err), errors.Is(err, driver.ErrSchema), err)
			}
			if RefusedNow[c.number] != c.other {
				t.Errorf("of a COMMIT it proves %v", RefusedNow[c.number])
			}
			if err = MaybeApplied("acquire", said(c.number, c.text)); driver.IsNotApplied(err) || driver.IsLasting(err) != c.lasts {
				t.Errorf("after another statement: %v, lasting %v", err, driver.IsLasting(err))
			}
		})
	}
	if err := Classify("acquire", errors.New("broken pipe")); driver.IsNotApplied(err) || driver.IsLasting(err) {
		t.Error("an error that is not the server's proves nothing")
	}
}

// TestCausesAreClear: no number has two causes, and none of them leaves open whether anything was done, or is one that passes.
func TestCausesAreClear(t *testing.T) {
	seen := make(map[uint16]bool)
	for _, c := range causes {
		for _, n := range c.numbers {
			if seen[n] || doubtful[n] || RefusedNow[n] || CannotServe[n] || !undone(said(n, "")) {
				t.Errorf("%d", n)
			}
			seen[n] = true
		}
	}
}
