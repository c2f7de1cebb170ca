// Package promrowlock has metrics of rowlock for Prometheus: what clients do ([New]), and what the database knows
// ([NewDBCollector]).
//
//	observer, metrics := promrowlock.New(promrowlock.Options{})
//	prometheus.MustRegister(metrics)
//	locks, err := rowlock.New(store, rowlock.Options{
//		Name:      "jobs",            // the label client
//		KeyName:   rowlock.UpTo("/"), // the label lock: "import" of the key "import/42"
//		Observers: []*rowlock.Observer{observer},
//	})
//
// Both have an example below. The guide is docs/guides/observing.md of the repository. Its folder observability has a
// dashboard and alert rules for these metrics.
//
// # Names
//
// One observer is for any number of clients of a program: the label client is their Options.Name. A key is never a label,
// because keys have no bound: the label lock is what Options.KeyName makes of the key, for at most Options.MaxLocks names;
// all others are _other. Names and prefixes are any bytes, and a label is text: a byte that is no UTF-8, or a control character,
// is \xNN there, and at most 1024 bytes are shown.
//
// The health figure is rowlock_renewal_trust_used_ratio: 0.37 is a healthy client, whatever its TTL, 1 is one that loses its
// leases.
package promrowlock
