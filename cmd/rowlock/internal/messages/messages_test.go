package messages

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a file that takes nothing until it is opened.
type stuck struct {
	open chan struct{}
	got  bytes.Buffer
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.open
	return s.got.Write(b)
}

// TestWriterDoesNotWait: a file that takes nothing keeps nobody waiting; when it does, what was written comes in order,
// and the number of messages for which there was no room is told.
func TestWriterDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &stuck{open: make(chan struct{})}
		w := New(file)
		var want strings.Builder
		fmt.Fprintln(w, "first")
		synctest.Wait() // it is on its way into the file
		for i := range most + 3 {
			fmt.Fprintln(w, i)
			if i < most {
				fmt.Fprintln(&want, i)
			}
		}
		start := time.Now()
		w.Flush(time.Second)
		if d := time.Since(start); d != time.Second {
			t.Errorf("Flush waited for %s", d)
		}
		close(file.open)
		w.Flush(time.Hour)
		if got := file.got.String(); got != "first\n"+want.String()+"rowlock: 3 more messages could not be written\n" {
			t.Errorf("written:\n%s", got)
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("Flush waited for %s with nothing to wait for", d-time.Second)
		}
	})
}
