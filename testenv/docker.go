package testenv

import (
	"context"
	"fmt"
)

func startDocker(context.Context, Kind, []string) (*Server, error) {
	return nil, fmt.Errorf("%w: not built in yet", ErrUnavailable)
}
