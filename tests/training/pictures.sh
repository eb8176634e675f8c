#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# pictures.sh: the cnn learns pictures that a user gives, in the files of MNIST, and on several ranks the same
# as the golden program; files that are not whole, or not these, are refused with the reason.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
cnn=$PWD/training/reference/cnn
cd "$scratch" || exit 1

# bytes N...: these bytes.
bytes()
{
    for byte in "$@"; do
        # shellcheck disable=SC2059
        printf "\\$(printf %o "$byte")"
    done
}

# pictures COUNT HEIGHT WIDTH: each has a pattern of its own.
pictures()
{
    bytes 0 0 8 3 0 0 0 "$1" 0 0 0 "$2" 0 0 0 "$3"
    awk -v count="$1" -v height="$2" -v width="$3" 'BEGIN {
        for (n = 0; n < count; n++)
            for (i = 0; i < height; i++)
                for (j = 0; j < width; j++)
                    printf "%c", (i * (n % 4) + j * (1 + n % 3)) % (2 + n) < 2 ? 100 + n : 1 + n
    }'
}

# labels CLASS...: a file of them.
labels()
{
    bytes 0 0 8 1 0 0 0 $# "$@"
}

pictures 8 14 11 >images
labels 0 1 2 3 4 5 6 7 >classes

# Bits: on one rank, and where filters, channels, pictures and space are cut; 14 x 11 pixels stand in the
# middle of 16 x 16.
"$cnn" steps=2 norm=1 data=images labels=classes >golden || fail "the golden program: exit status $?"
for mesh in "" "--dp 2 --tp 2 --cp 2 --micro 2 --zero 3" "--cp 4 --pp 2 --micro 2"; do
    # shellcheck disable=SC2086
    "$train" --hex --model cnn:nano --norm group --data images --labels classes --steps 2 $mesh >out 2>said
    grep '^step' out | cut -d ' ' -f 1-8 | cmp -s - golden ||
        fail "$mesh: $(cat said out) is not $(cat golden)"
done
"$cnn" steps=2 columns=1 classes=200 size=16 data=images labels=classes >golden
"$train" --hex --quiet --model cnn:nano --grid 16 --vocabulary 200 --cnn-cut columns --cp 2 --data images \
    --labels classes --steps 2 >out 2>said
cmp -s out golden || fail "columns: $(cat said out) is not $(cat golden)"

# Coloured ones: a class, and three planes of 32 x 32 bytes.
awk 'BEGIN {
    for (n = 0; n < 5; n++)
        for (i = 0; i < 3073; i++)
            printf "%c", i ? 1 + (i * (n + 3) + n * i / 1024) % 120 : n + 1
}' >coloured
"$cnn" steps=2 planes=3 size=16 layers=2 batch=4 data=coloured >golden || fail "planes=3: exit status $?"
"$train" --hex --quiet --model cnn:nano --grid 16 --layers 2 --batch 4 --planes 3 --data coloured --steps 2 \
    --tp 2 --cp 2 >out 2>said
cmp -s out golden || fail "colours: $(cat said out) is not $(cat golden)"

# Eight pictures are soon known by heart.
"$train" --hex --quiet --model cnn:nano --layers 2 --norm group --data images --labels classes --steps 40 \
    --rate 0.01 --dp 2 >out 2>said || fail "learning: $(cat said)"
tail -n 1 out | awk '{ exit !($4 < 0.2) }' || fail "not learned: $(tail -n 1 out)"

# A checkpoint is of one size of pictures, and of one number of groups.
train_saved()
{
    "$train" --hex --quiet --model cnn:nano --norm group --data images --labels classes "$@" >out 2>said
}
train_saved --steps 2 --tp 2 --cp 2 --save saved || fail "saving: $(cat said)"
train_saved --steps 4 && cp out whole
train_saved --steps 4 --dp 2 --cp 2 --load saved
[ "$(tail -n 1 out)" = "$(tail -n 1 whole)" ] || fail "going on: $(cat said out) is not $(cat whole)"

# refused WORDS OPTION...: in these words, before a step.
refused()
{
    why=$1
    shift
    fails_with "$why" '^ *[0-9]' "$train" --model cnn:nano --steps 1 "$@"
}

head -c 900 images >cut
head -c 10 images >head
head -c 1 images >start
(cat images && printf x) >longer
pictures 0 14 11 >none
pictures 8 14 0 >thin
pictures 8 20 11 >large
(bytes 0 0 13 3 && tail -c +5 images) >floats
(bytes 31 139 && tail -c +3 images) >packed
(bytes 0 0 8 3 255 255 255 255 0 0 255 255 0 0 255 255 && tail -c +17 images) >huge
labels 0 1 2 3 4 5 6 >few
labels 0 1 2 3 4 10 6 7 >beyond
refused 'promises 8 pictures of 154 bytes, and there are 5 and a part' --data cut --labels classes
refused 'there are 8 and a part' --data longer --labels classes
refused 'ends after 10 bytes, in the head of 16' --data head --labels classes
refused 'does not begin with 00 00 08 03' --data start --labels classes
refused 'does not begin with 00 00 08 03' --data "$train" --labels classes
refused 'gives a size of 0' --data none --labels classes
refused 'gives a size of 0' --data thin --labels classes
refused 'pixels, and the model'\''s have 16 x 16; legal is --grid 16 and more' --data large --labels classes
refused 'numbers of type 0d' --data floats --labels classes
refused 'gunzip -k packed' --data packed --labels classes
refused 'and there are 0 and a part' --data huge --labels classes
refused 'has 1 dimension, as labels have; pictures have 3' --data classes --labels images
refused 'has 3 dimensions, as other files have; labels have 1' --data images --labels images
refused 'images has 8 pictures, and few 7 labels' --data images --labels few
refused 'label 5 is 10; the model has classes 0 to 9' --data images --labels beyond
refused 'missing cannot be opened' --data missing --labels classes
refused 'missing cannot be opened' --data images --labels missing
refused '. cannot be read' --data . --labels classes
refused 'legal with --labels FILE' --data images
refused 'there are no pictures; legal with --data FILE' --labels classes
refused 'legal are 2 to 256' --data images --labels classes --vocabulary 257
refused 'cuts the grid' --data images --labels classes --cp 3
refused 'has no pictures' --model mlp:nano --labels classes
head -c 9000 coloured >part
: >empty
refused 'legal are 1 and 3' --planes 2
refused 'the digits that are drawn have one' --planes 3
refused 'legal is --grid 16 and more' --planes 3 --data coloured
refused 'part has 9000 bytes; a file of CIFAR-10 has 3073' --grid 16 --planes 3 --data part
refused 'empty has 0 bytes' --grid 16 --planes 3 --data empty
refused 'picture 3 is of class 4; the model has classes 0 to 3' --grid 16 --planes 3 --data coloured \
    --vocabulary 4
refused 'the classes are in the file of the pictures' --planes 3 --data coloured --labels classes
refused 'a run with grid 8, and this one has 16; legal is --grid 8' --norm group --grid 16 --load saved
refused 'is of model cnn norm 8, and this run is of cnn norm 4' --norm group --norm-groups 4 --load saved

[ "$failures" -eq 0 ] && echo "pictures: those of a user are learned"
exit "$failures"
