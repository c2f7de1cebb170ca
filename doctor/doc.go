// Package doctor has what Doctor of the stores reports: findings about a database that is to keep locks.
//
//	report, err := store.Doctor(ctx, doctor.Options{})
//	if err != nil {
//		return err // the database could not be looked at
//	}
//	for _, f := range report.Findings {
//		if f.Severity >= doctor.Warn {
//			log.Printf("%s: %s: %s", f.ID, f.Value, f.Advice)
//		}
//	}
//
// The command rowlock doctor does the same in a terminal. docs/doctor.md of the repository has every finding; a test makes
// it from [MySQL] and [Mongo].
//
// A finding has an ID that never changes its meaning (RL1xx of MySQL and MariaDB, RL2xx of MongoDB), a severity, the value
// that was seen, what that means for a lock, and one command that mends it.
//
// A Doctor reads settings, tries privileges with statements that change no row, and measures: it takes and releases locks of
// keys that nothing else uses. With [Options.ReadOnly] it only reads. It proves nothing: a database without a finding can
// still lose what it acknowledged, by a fault that no setting shows.
package doctor
