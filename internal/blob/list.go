package blob

import (
	"context"
	"errors"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Object is stored content in the bucket.
type Object struct {
	Tenant string
	Ref    string // cas://sha256:<hex>
	Bytes  int64  // compressed
}

// Objects reads a page of at most limit objects of the bucket, and returns those that are content of a tenant. It skips compiled plans, uploads and
// removals in progress, and other objects. token is nil for the first page, and the result next for the following one. next is nil after the last
// page.
func (s *Store) Objects(ctx context.Context, token []byte, limit int) (page []Object, next []byte, err error) {
	if len(token) == 0 {
		token = blob.FirstPageToken
	}
	var objects []*blob.ListObject
	err = retryList(func() (err error) {
		objects, next, err = s.bucket.ListPage(ctx, token, limit, nil)
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, bucketError(ctx, "list blob store", err)
	}
	for _, o := range objects {
		tenant, digest, ok := parseKey(o.Key)
		if ok && tenant != plansFolder {
			page = append(page, Object{Tenant: tenant, Ref: scheme + digest, Bytes: o.Size})
		}
	}
	return page, next, nil
}

// maxLists is how often a list is tried.
const maxLists = 10

// retryList calls list, and retries it if an object was removed meanwhile, because the file driver then returns an error.
func retryList(list func() error) (err error) {
	for range maxLists {
		if err = list(); err == nil || gcerrors.Code(err) != gcerrors.NotFound {
			return err
		}
	}
	return err
}

// deleteObjects deletes the old objects with a prefix, and returns how many. It stops when classify returns isLast.
func deleteObjects(ctx context.Context, bucket *blob.Bucket, prefix string, classify func(*blob.ListObject) (isOld, isLast bool)) (n int, err error) {
	err = retryList(func() error {
		for list := bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
			object, err := list.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			isOld, isLast := classify(object)
			if isLast {
				return nil
			}
			if !isOld {
				continue
			}
			if err := bucket.Delete(ctx, object.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
				return err
			}
			n++
		}
	})
	return n, err
}

// parseKey returns the tenant and the digest of a key from objectKey. ok is false for any other key.
func parseKey(key string) (tenant, digest string, ok bool) {
	tenant, path, _ := strings.Cut(key, "/")
	digits, ok := strings.CutPrefix(path, "sha256/")
	digest = strings.Replace(digits, "/", "", 1)
	if _, err := ParseRef(scheme + digest); !ok || err != nil || checkTenant(tenant) != nil {
		return "", "", false
	}
	return tenant, digest, objectKey(tenant, digest) == key
}
