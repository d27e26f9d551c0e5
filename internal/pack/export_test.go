package pack

import "os"

// TestingOnlySync puts another function in the place of (*os.File).Sync.
func (f *Folder) TestingOnlySync(sync func(*os.File) error) { f.testingOnlySync = sync }
