package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compile looks whether each bug applies and compiles, and gives the errors by name. To
// be quick it looks at many together, those that change different files, and one by one
// only where that fails.
func (t *tree) compile(ctx context.Context, all []*mutation) map[string]error {
	errs := make(map[string]error)
	for n, group := range disjoint(all) {
		err := t.vet(ctx, group, errs)
		for _, m := range group {
			if err != nil && errs[m.name] == nil {
				errs[m.name] = t.vet(ctx, []*mutation{m}, errs)
			}
		}
		fmt.Printf("compiled: %d mutations in group %d\n", len(group), n+1)
	}
	return errs
}

// disjoint parts mutations into groups that change a file once.
func disjoint(all []*mutation) (groups [][]*mutation) {
	var taken []map[string]bool // the files of each group
	for _, m := range all {
		n := slices.IndexFunc(taken, func(files map[string]bool) bool {
			return !slices.ContainsFunc(m.paths, func(path string) bool { return files[path] })
		})
		if n < 0 {
			n = len(groups)
			groups, taken = append(groups, nil), append(taken, make(map[string]bool))
		}
		groups[n] = append(groups[n], m)
		for _, path := range m.paths {
			taken[n][path] = true
		}
	}
	return groups
}

// vet puts bugs into the copy, looks whether their packages and the tests of those
// compile, and takes them out. A bug that does not apply goes into errs.
func (t *tree) vet(ctx context.Context, group []*mutation, errs map[string]error) error {
	dirs := make(map[string]bool)
	for _, m := range group {
		defer t.restore(m)
		if err := t.apply(ctx, m); err != nil {
			errs[m.name] = err
			continue
		}
		for _, dir := range m.packages() {
			dirs[dir] = true
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	// One check, for vet is here to see whether the types fit; and paths that are the same
	// whatever folder the copy is in, so that what was compiled before is known.
	text, err := t.goCommand(ctx, append([]string{"vet", "-nilfunc", "-trimpath"}, slices.Sorted(maps.Keys(dirs))...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("it does not compile: %s", firstOf(strings.Split(string(text), "\n"), syntax))
	}
	return nil
}
