package health

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"gocloud.dev/blob"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// tempPrefix is the folder of unfinished content, which the content store sweeps. So it also sweeps the objects of a probe that died.
	tempPrefix = "~tmp/health-"
	blobEvery  = time.Minute // each call writes
	// A disk with less free space than both is nearly full.
	minFreeBytes = 2 << 30
	minFreeShare = 0.05
)

// BlobProbe writes a small object to a bucket, reads it and deletes it, at most once a minute. It calls open until that succeeds once. A store that
// fails is down, because turns end when their content cannot be stored.
func BlobProbe(open func(ctx context.Context) (*blob.Bucket, error)) Probe {
	var bucket *blob.Bucket
	return Probe{Name: Blobs, Every: blobEvery, Timeout: 2 * time.Second, Ask: func(ctx context.Context) (Finding, error) {
		if bucket == nil {
			opened, err := open(ctx)
			if err != nil {
				return Finding{}, err
			}
			bucket = opened
		}
		key, content := tempPrefix+rand.Text(), []byte("is it there?")
		if err := bucket.WriteAll(ctx, key, content, nil); err != nil {
			return Finding{}, fmt.Errorf("write: %w", err)
		}
		read, err := bucket.ReadAll(ctx, key)
		tidying := bucket.Delete(ctx, key)
		switch {
		case err != nil:
			return Finding{}, fmt.Errorf("read: %w", err)
		case !bytes.Equal(read, content):
			return Finding{}, errors.New("what was written reads as something else")
		case tidying != nil:
			return Finding{Degraded, "wrote and read, but cannot delete: " + tidying.Error(), hintBlobs}, nil //nolint:nilerr // that is the finding
		}
		return Finding{State: OK, Detail: "wrote, read and deleted an object"}, nil
	}}
}

// OpenBucket opens a bucket by its URL, as the content store does.
func OpenBucket(bucketURL string) func(context.Context) (*blob.Bucket, error) {
	return func(ctx context.Context) (*blob.Bucket, error) {
		u, err := url.Parse(bucketURL)
		if err != nil { // its text would quote the URL
			return nil, agent.Invalid("storage.blob_url", "is no URL")
		}
		if u.Scheme == "file" { // no metadata beside the object, no temporary file on another disk
			q := u.Query()
			q.Set("no_tmp_dir", "true")
			q.Set("metadata", "skip")
			u.RawQuery = q.Encode()
		}
		return blob.OpenBucket(ctx, u.String())
	}
}

// DiskProbe checks the free space on the disk of a folder.
func DiskProbe(folder string) Probe {
	return Probe{Name: Disk, Every: 10 * time.Second, Late: Degraded, Ask: func(context.Context) (Finding, error) {
		var s syscall.Statfs_t
		if err := syscall.Statfs(folder, &s); err != nil {
			return Finding{}, fmt.Errorf("look at %s: %w", folder, err)
		}
		size := uint64(s.Bsize) //nolint:gosec // a size
		return diskFinding(folder, s.Bavail*size, s.Blocks*size, s.Ffree, s.Files), nil
	}}
}

// diskFinding returns the finding about free and total bytes and files. Some file systems count no files.
func diskFinding(folder string, free, total, freeFiles, files uint64) Finding {
	detail := fmt.Sprintf("%s: %s of %s free", folder, humanize.IBytes(free), humanize.IBytes(total))
	switch {
	case files > 0 && float64(freeFiles) < 0.01*float64(files):
		return Finding{Degraded, fmt.Sprintf("%s, but room for %d more files only", detail, freeFiles), hintDiskFull}
	case free < minFreeBytes && float64(free) < minFreeShare*float64(total) || free < minFreeBytes/16:
		return Finding{Degraded, detail, hintDiskFull}
	}
	return Finding{State: OK, Detail: detail}
}
