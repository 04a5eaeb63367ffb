// Package clouds adds the storage drivers that a worker does not have by default: Google Cloud Storage (gs://) and Azure (azblob://). A program
// imports it for its side effect:
//
//	import _ "github.com/turnstone-run/turnstone/clouds"
//
// They make a program 20 MB larger. Folders (file://) and S3 (s3://) are always there.
package clouds

import (
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
)
