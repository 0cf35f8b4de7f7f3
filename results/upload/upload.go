// Package upload copies run folders to an object store that speaks the protocol of Amazon S3.
package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"dyno/results/rundir"
)

// Scheme is what the URL of a place in a store begins with.
const Scheme = "s3://"

const awsEndpoint = "https://s3.amazonaws.com"

// A Store is a place in an object store.
type Store struct {
	client         *minio.Client
	bucket, prefix string
}

// Open returns the store at s3://BUCKET/PREFIX, which must have the bucket. The environment says where the store
// is, and has the credentials; so may the files and services of AWS.
func Open(ctx context.Context, place string) (*Store, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(place, Scheme), "/")
	endpoint := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), awsEndpoint)
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL: %q is not the URL of a store", endpoint)
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds:  credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: u.Scheme == "https",
		Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	})
	if err != nil {
		return nil, err
	}
	found, err := client.BucketExists(ctx, bucket)
	if err == nil && !found {
		err = errors.New("there is no such bucket")
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %q at %s: %w", bucket, u.Host, err)
	}
	return &Store{client, bucket, strings.Trim(prefix, "/")}, nil
}

// Upload copies a folder, and returns the URL of the copy. The last file is run.json: where that is, all is.
func (s *Store) Upload(ctx context.Context, dir string) (string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") { // those are of running programs
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	last := filepath.Join(dir, rundir.RunFile)
	files = append(slices.DeleteFunc(files, func(file string) bool { return file == last }), last)
	under := path.Join(s.prefix, filepath.Base(dir))
	for _, file := range files {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return "", err
		}
		if _, err := s.client.FPutObject(ctx, s.bucket, path.Join(under, filepath.ToSlash(name)), file, minio.PutObjectOptions{}); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return Scheme + s.bucket + "/" + under, nil
}
