package callertx

import (
	"context"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

func TestTxErrorIsMarked(t *testing.T) {
	deadlock := &mysql.MySQLError{Number: conn.ErDeadlock}
	err := Error(deadlock)
	var e *mysql.MySQLError
	if !errors.Is(err, driver.ErrConflict) || !errors.As(err, &e) || e != deadlock {
		t.Errorf("a deadlock: %v", err)
	}
	if err := Error(context.Canceled); err != context.Canceled {
		t.Errorf("a context's error: %v", err)
	}
	if Error(nil) != nil {
		t.Error("no error is no error")
	}
}
