package guard

import "os"

// processName is what ps shows of the guard, which would be "exe", after the file by which it is started. At most 15 bytes.
const processName = "rowlock-guard"

func nameProcess() { _ = os.WriteFile("/proc/self/comm", []byte(processName), 0) } // only for people
