// Package undo ends, in the background, holds whose outcome is unknown and holds that no
// caller wants, by hold ID, until they can take no effect any more: see the section on
// unknown outcomes in docs/design.md. [Unresolved] has one [Task] for each hold. When a task
// is over is decided in final, how often it is tried in send, what Close waits for in Wait.
package undo
