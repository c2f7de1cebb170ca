package split

import "slices"

// Halves sends in two statements what could not go in one: it was too large, or a row that nobody can read stopped it. See InTwo.
func Halves(entries []int, send func(half []int) (open []int, err error), later func(error) error) ([]int, error) {
	half := len(entries) / 2
	return InTwo(entries[:half], entries[half:], send, later)
}

// InTwo sends first, then second, and returns the entries that are still open. After an error of the first the second is not sent. later
// is what an error of the second becomes, because the first was sent.
func InTwo(first, second []int, send func(part []int) (open []int, err error), later func(error) error) ([]int, error) {
	open, err := send(first)
	if err != nil {
		return slices.Concat(open, second), err
	}
	more, err := send(second)
	if err != nil {
		err = later(err)
	}
	return slices.Concat(open, more), err
}
