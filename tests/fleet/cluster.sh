# A cluster in namespaces of its own: a bridge, and for each node a network, host name, IPC, processes and an sshd.
#
#   unshare --mount --net --pid --ipc --uts --fork --kill-child --mount-proc bash cluster.sh COUNT FOLDER KEEP...
#
# KEEP are folders that nodes see although they lie in /tmp, of which each node has its own.
#
# FOLDER has sshd.conf, and may have NODE.sh (run on the node before its sshd starts), NODE.conf (its sshd.conf), and
# login.sh (run on the login node, which is 10.77.0.1, before the nodes are made).
# It says "up" once every sshd listens, and stays until it is killed, and all of it with it.
set -e
count=$1 folder=$2
shift
keep=("$@")
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/netns /run/tmp
mount --rbind /tmp /run/tmp
mount --bind "$folder/ssh_config" /etc/ssh/ssh_config
ip link set lo up
ip link add br0 type bridge
ip addr add 10.77.0.1/16 dev br0
ip link set br0 up
{
    echo "127.0.0.1 localhost"
    echo "10.77.0.1 login"
    for ((i = 1; i <= count; i++)); do echo "10.77.1.$i node$i"; done
} >/run/hosts
mount --bind /run/hosts /etc/hosts
[ ! -e "$folder/login.sh" ] || . "$folder/login.sh"

node() {
    name=node$1
    ip netns add "$name"
    ip link add "v$1" type veth peer name eth0 netns "$name"
    ip link set "v$1" master br0 up
    ip netns exec "$name" unshare --mount --pid --ipc --uts --fork --kill-child --mount-proc \
        bash -ec '
            folder=$1 name=$2 address=$3
            shift 3
            hostname "$name"
            ip link set lo up
            ip addr add "$address/16" dev eth0
            ip link set eth0 up
            mount -t tmpfs -o mode=1777 tmpfs /tmp
            for path; do
                [ "${path#/tmp/}" = "$path" ] || { mkdir -p "$path" && mount --bind "/run$path" "$path"; }
            done
            mount -t tmpfs -o mode=1777 tmpfs /dev/shm
            mount -t tmpfs tmpfs /var/lib
            mount -t tmpfs tmpfs /run
            mkdir -p /run/sshd
            [ ! -e "$folder/$name.sh" ] || . "$folder/$name.sh"
            configuration=$folder/sshd.conf
            [ ! -e "$folder/$name.conf" ] || configuration=$folder/$name.conf
            exec /usr/sbin/sshd -D -f "$configuration"
        ' bash "$folder" "$name" "10.77.1.$1" "${keep[@]}" </dev/null >"$folder/$name.log" 2>&1 &
}
for ((i = 1; i <= count; i++)); do node "$i"; done
for ((i = 1; i <= count; i++)); do
    for ((turn = 0; turn < 200; turn++)); do
        ip netns exec "node$i" ss -Hltn 2>/dev/null | grep -q ':22 ' && continue 2
        sleep 0.1
    done
    cat "$folder/node$i.log" >&2
    exit 1
done
echo up
read -r _ || true
